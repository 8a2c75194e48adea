"""Chapters about the cluster: leaders, features, brokers, the quorum, topics."""

from __future__ import annotations

from typing import Any

from tests.conformance.admin.step import Step


def elections() -> list[Step]:
    """Elect leaders that are needed and that are not."""

    def elect(*partitions: tuple[str, list[int]], kind: int = 0) -> dict[str, Any]:
        rows = [{"topic": topic, "partitions": numbers} for topic, numbers in partitions]
        return {"election_type": kind, "topic_partitions": rows, "timeout_ms": 15000}

    steps = [
        Step("all", "elect_leaders", 2, {"election_type": 0, "topic_partitions": None, "timeout_ms": 15000}),
        Step("all, unclean", "elect_leaders", 2, {"election_type": 1, "topic_partitions": None, "timeout_ms": 15000}),
        Step(
            "all, unknown type", "elect_leaders", 2, {"election_type": 7, "topic_partitions": None, "timeout_ms": 15000}
        ),
        Step("none", "elect_leaders", 2, elect()),
        Step("none, unknown type", "elect_leaders", 2, elect(kind=5)),
    ]
    asked: dict[str, list[tuple[str, list[int]]]] = {
        "needed by nobody": [("{t}", [0, 1])],
        "unknown partition": [("{t}", [7])],
        "negative partition": [("{t}", [-1])],
        "unknown topic": [("{t}-unknown", [0, 1])],
        "illegal topic": [("a b", [0])],
        "empty topic": [("", [0])],
        "no partitions": [("{t}", [])],
        "some of each": [("{t}", [0, 9]), ("{t}-unknown", [0])],
        "a partition twice": [("{t}", [0, 0])],
    }
    for name, partitions in asked.items():
        steps += [
            Step(name, "elect_leaders", 2, elect(*partitions)),
            Step(f"{name}, unclean", "elect_leaders", 2, elect(*partitions, kind=1)),
            Step(f"{name}, unknown type", "elect_leaders", 1, elect(*partitions, kind=2)),
        ]
    oldest = {"topic_partitions": [{"topic": "{t}", "partitions": [0]}], "timeout_ms": 15000}
    return [*steps, Step("oldest version", "elect_leaders", 0, oldest)]


def _feature(name: str, level: int, kind: int = 1) -> dict[str, Any]:
    return {"feature": name, "max_version_level": level, "upgrade_type": kind}


def features() -> list[Step]:
    """Check levels of features."""
    asked: dict[str, list[dict[str, Any]]] = {
        "nothing": [],
        "unknown feature": [_feature("no.such.feature", 1)],
        "no name": [_feature("", 1)],
        "unknown feature to 0": [_feature("no.such.feature", 0, 2)],
        "metadata version as it is": [_feature("metadata.version", 29)],
        "metadata version as it is, safe downgrade": [_feature("metadata.version", 29, 2)],
        "metadata version too high": [_feature("metadata.version", 500)],
        "metadata version down as upgrade": [_feature("metadata.version", 28)],
        "metadata version down, safe": [_feature("metadata.version", 28, 2)],
        "metadata version down, unsafe": [_feature("metadata.version", 28, 3)],
        "metadata version far down, safe": [_feature("metadata.version", 7, 2)],
        "metadata version far down, unsafe": [_feature("metadata.version", 7, 3)],
        "metadata version below the lowest": [_feature("metadata.version", 6, 3)],
        "metadata version to 0": [_feature("metadata.version", 0, 3)],
        "negative level": [_feature("metadata.version", -1)],
        "kraft version as it is": [_feature("kraft.version", 1)],
        "kraft version too high": [_feature("kraft.version", 9)],
        "kraft version down": [_feature("kraft.version", 0, 2)],
        "unknown type": [_feature("metadata.version", 29, 7)],
        "type 0": [_feature("metadata.version", 29, 0)],
        "a feature twice": [_feature("metadata.version", 29), _feature("metadata.version", 28, 2)],
        "group version too high": [_feature("group.version", 5)],
        "transaction version too high": [_feature("transaction.version", 5)],
        "one good, one bad": [_feature("metadata.version", 29), _feature("no.such.feature", 1)],
    }
    steps = []
    for name, updates in asked.items():
        values = {"timeout_ms": 15000, "feature_updates": updates, "validate_only": True}
        steps += [Step(f"{name}, v{version}", "update_features", version, values) for version in (1, 2)]
    for name in ("unknown feature", "metadata version as it is", "metadata version too high"):
        rows = [
            {"feature": row["feature"], "max_version_level": row["max_version_level"], "allow_downgrade": False}
            for row in asked[name]
        ]
        steps.append(Step(f"{name}, v0", "update_features", 0, {"timeout_ms": 15000, "feature_updates": rows}))
    values = {"timeout_ms": 15000, "feature_updates": [_feature("metadata.version", 29)], "validate_only": False}
    return [*steps, Step("as it is, for good", "update_features", 2, values)]


def brokers() -> list[Step]:
    """Unregister brokers that are not."""
    return [
        *(
            Step(f"unregister {broker}", "unregister_broker", 0, {"broker_id": broker})
            for broker in (77, -1, 2**31 - 1)
        ),
    ]


def quorum() -> list[Step]:
    """Ask for the quorum."""

    def asked(*partitions: tuple[str, list[int]]) -> dict[str, Any]:
        return {
            "topics": [
                {"topic_name": topic, "partitions": [{"partition_index": number} for number in numbers]}
                for topic, numbers in partitions
            ]
        }

    log = "__cluster_metadata"
    return [
        *(Step(f"the quorum, v{version}", "describe_quorum", version, asked((log, [0]))) for version in (0, 1, 2)),
        *(
            step
            for version in (1, 2)
            for step in (
                Step(f"another partition, v{version}", "describe_quorum", version, asked((log, [1]))),
                Step(f"another topic, v{version}", "describe_quorum", version, asked(("{t}", [0]))),
                Step(f"two partitions, v{version}", "describe_quorum", version, asked((log, [0, 1]))),
                Step(f"two topics, v{version}", "describe_quorum", version, asked((log, [0]), ("{t}", [0]))),
                Step(f"nothing, v{version}", "describe_quorum", version, asked()),
                Step(f"no partitions, v{version}", "describe_quorum", version, asked((log, []))),
            )
        ),
    ]


def topics() -> list[Step]:
    """Check topics and partitions that cannot be, and delete what is not."""

    def create(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
        row = {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}
        return {"topics": [row], "timeout_ms": 15000, "validate_only": True}

    def assigned(*rows: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> dict[str, Any]:
        assignments = [{"partition_index": number, "broker_ids": brokers} for number, brokers in rows]
        return create("{t}-n", partitions, factor, assignments=assignments)

    def more(name: str, count: int, assignments: list[list[int]] | None = None) -> dict[str, Any]:
        rows = None if assignments is None else [{"broker_ids": brokers} for brokers in assignments]
        topic = {"name": name, "count": count, "assignments": rows}
        return {"topics": [topic], "timeout_ms": 15000, "validate_only": True}

    def delete(offset: int, topic: str = "{t}", partition: int = 0) -> dict[str, Any]:
        row = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
        return {"topics": [row], "timeout_ms": 15000}

    twice = create("{t}-n")
    twice["topics"] *= 2
    return [
        Step("create what exists", "create_topics", 7, create("{t}")),
        Step("create twice", "create_topics", 7, twice),
        Step("create the metadata log", "create_topics", 7, create("__cluster_metadata")),
        Step("create an illegal name", "create_topics", 7, create("a b")),
        Step("create no name", "create_topics", 7, create("")),
        Step("create a dot", "create_topics", 7, create(".")),
        Step("create a long name", "create_topics", 7, create("x" * 250)),
        Step("create 0 partitions", "create_topics", 7, create("{t}-n", 0)),
        Step("create -2 partitions", "create_topics", 7, create("{t}-n", -2)),
        Step("create too many partitions", "create_topics", 7, create("{t}-n", 10_001)),
        Step("create factor 0", "create_topics", 7, create("{t}-n", 1, 0)),
        Step("create factor 2", "create_topics", 7, create("{t}-n", 1, 2)),
        Step("create factor -2", "create_topics", 7, create("{t}-n", 1, -2)),
        Step("assign with a gap", "create_topics", 7, assigned((0, [1]), (2, [1]))),
        Step("assign nobody", "create_topics", 7, assigned((0, []))),
        Step("assign a stranger", "create_topics", 7, assigned((0, [99]))),
        Step("assign a broker twice", "create_topics", 7, assigned((0, [1, 1]))),
        Step("assign a partition twice", "create_topics", 7, assigned((0, [1]), (0, [1]))),
        Step("assign with a factor", "create_topics", 7, assigned((0, [1]), factor=1)),
        Step("assign with partitions", "create_topics", 7, assigned((0, [1]), partitions=1)),
        Step("same number", "create_partitions", 3, more("{t}", 2)),
        Step("fewer", "create_partitions", 3, more("{t}", 1)),
        Step("none at all", "create_partitions", 3, more("{t}", 0)),
        Step("more", "create_partitions", 3, more("{t}", 5)),
        Step("more of an unknown topic", "create_partitions", 3, more("{t}-unknown", 5)),
        Step("too few assignments", "create_partitions", 3, more("{t}", 5, [[1]])),
        Step("assign more to a stranger", "create_partitions", 3, more("{t}", 3, [[99]])),
        Step("assign more to nobody", "create_partitions", 3, more("{t}", 3, [[]])),
        Step("delete records of nothing", "delete_records", 2, delete(0, "{t}-unknown")),
        Step("delete records of an unknown partition", "delete_records", 2, delete(0, partition=9)),
        Step("delete records beyond the end", "delete_records", 2, delete(1)),
        Step("delete records up to -2", "delete_records", 2, delete(-2)),
        Step("delete records up to the end", "delete_records", 2, delete(-1)),
        Step("delete an unknown topic", "delete_topics", 6, {"topics": [{"name": "{t}-unknown"}], "timeout_ms": 15000}),
        Step("delete no topic", "delete_topics", 6, {"topics": [{"name": None}], "timeout_ms": 15000}),
        Step(
            "delete an unknown id",
            "delete_topics",
            6,
            {"topics": [{"name": None, "topic_id": b"\x07" * 16}], "timeout_ms": 15000},
        ),
    ]
