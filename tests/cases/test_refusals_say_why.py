"""Wherever an answer has a place for it, a refusal says in words what was wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.broker import reference_wanted
from tests.harness.groups import find_coordinator
from tests.harness.raw import RawClient, produce_values
from tests.harness.transacting import find_transaction_coordinator
from tests.harness.wire import Struct

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Kafka leaves some of the words to its clients")

PROPERTIES = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
FEWEST_WORDS = 3
STRANGER = b"\x01" * 16

Bad = tuple[str, int, dict[str, Any]]


def topics(*rows: dict[str, Any]) -> Bad:
    shape = {"num_partitions": 1, "replication_factor": 1, "configs": [], "assignments": []}
    return "create_topics", 7, {"topics": [shape | row for row in rows], "timeout_ms": 5000}


def assigned(*brokers: list[int], first: int = 0) -> dict[str, Any]:
    rows = [{"partition_index": number, "broker_ids": ids} for number, ids in enumerate(brokers, first)]
    return {"name": "new", "num_partitions": -1, "replication_factor": -1, "assignments": rows}


def partitions(name: str, count: int, *brokers: list[int]) -> Bad:
    rows = [{"broker_ids": ids} for ids in brokers]
    return "create_partitions", 3, {"topics": [{"name": name, "count": count, "assignments": rows or None}]}


def changes(kind: int, name: str, *rows: tuple[str, int, str | None]) -> Bad:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in rows]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return "incremental_alter_configs", 1, {"resources": [resource]}


def replacement(kind: int, name: str, *rows: tuple[str, str | None]) -> Bad:
    resource = {"resource_type": kind, "resource_name": name}
    return "alter_configs", 2, {"resources": [resource | {"configs": [{"name": k, "value": v} for k, v in rows]}]}


def configs(kind: int, name: str) -> Bad:
    return "describe_configs", 4, {"resources": [{"resource_type": kind, "resource_name": name}]}


def election(kind: int, topic: str, partition: int) -> Bad:
    rows = [{"topic": topic, "partitions": [partition]}]
    return "elect_leaders", 2, {"election_type": kind, "topic_partitions": rows, "timeout_ms": 5000}


def reassignment(topic: str, partition: int, *replicas: int) -> Bad:
    row = {"name": topic, "partitions": [{"partition_index": partition, "replicas": list(replicas)}]}
    return "alter_partition_reassignments", 1, {"topics": [row], "timeout_ms": 5000}


def quota(entity: dict[str, str], key: str, value: float) -> Bad:
    row = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value, "remove": False}],
    }
    return "alter_client_quotas", 1, {"entries": [row], "validate_only": False}


def quota_filter(*components: tuple[str, int, str | None]) -> Bad:
    rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    return "describe_client_quotas", 1, {"components": rows, "strict": False}


def password(*, times: int = 1, **fields: Any) -> Bad:
    row = {"name": "a", "mechanism": 1, "iterations": 8192, "salt": b"s", "salted_password": b"p" * 32}
    return "alter_user_scram_credentials", 0, {"deletions": [], "upsertions": [row | fields] * times}


def feature(name: str, level: int, kind: int) -> Bad:
    row = {"feature": name, "max_version_level": level, "upgrade_type": kind}
    return "update_features", 2, {"feature_updates": [row], "timeout_ms": 5000, "validate_only": True}


def produced(batch: bytes | None, topic: str = "t", partition: int = 0, *, acks: int = -1, **named: str) -> Bad:
    return "produce", 12, produce_values(topic, {partition: batch}, acks, named.get("transactional_id"))


def heartbeat(**fields: Any) -> Bad:
    shape = {"group_id": "g", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None}
    shape |= {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "subscribed_topic_regex": None}
    return "consumer_group_heartbeat", 1, shape | {"server_assignor": None, "topic_partitions": []} | fields


TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, APPEND = 0, 2
ENTITY = {"user": "a"}
SIMPLE = batches.simple
IDEMPOTENT = {"producer_id": 77, "producer_epoch": 0}
TRANSACTIONAL = IDEMPOTENT | {"base_sequence": 0, "attributes": batches.TRANSACTIONAL}
RULE = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*"}
RULE |= {"operation": 3, "permission_type": 3}
EVERY_RULE = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
EVERY_RULE |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}

REFUSED: list[Bad] = [
    *(topics({"name": name}) for name in ("", "a/b", ".", "x" * 250, "c_d", "t", "__cluster_metadata")),
    *(topics({"name": "new", "num_partitions": count}) for count in (0, -5)),
    *(topics({"name": "new", "replication_factor": count}) for count in (0, 3)),
    *(
        topics({"name": "new", "configs": [{"name": key, "value": value}]})
        for key, value in (("no.such", "1"), ("retention.ms", "abc"), ("retention.ms", None), ("cleanup.policy", "x"))
    ),
    *(topics(row) for row in (assigned([1], first=1), assigned([]), assigned([99]), assigned([1, 1]))),
    topics(assigned([1]) | {"replication_factor": 1}),
    topics({"name": "twice"}, {"name": "twice"}),
    *(
        ("delete_topics", 6, {"topics": rows, "timeout_ms": 5000})
        for rows in (
            [{"name": "nope"}],
            [{"name": None, "topic_id": STRANGER}],
            [{"name": None}],
            [{"name": "t", "topic_id": STRANGER}],
            [{"name": "nope"}, {"name": "nope"}],
        )
    ),
    *(partitions("t", count) for count in (2, 1, -1, 20_000_000)),
    partitions("nope", 3),
    *(partitions("t", 3, ids) for ids in ([], [99], [1, 1])),
    partitions("t", 4, [1]),
    *(
        changes(TOPIC, "t", row)
        for row in (("retention.ms", SET, "x"), ("no.such", SET, "1"), ("retention.ms", 9, "1"))
    ),
    *(changes(TOPIC, "t", row) for row in (("retention.ms", APPEND, "1"), ("retention.ms", SET, None))),
    changes(TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "1")),
    *(changes(TOPIC, name, ("retention.ms", SET, "1")) for name in ("nope", "", "a/b")),
    *(changes(BROKER, name, ("log.retention.ms", SET, "1000")) for name in ("99", "abc")),
    changes(BROKER, "1", ("node.id", SET, "2")),
    changes(BROKER, "1", ("log.cleaner.threads", SET, "0")),
    changes(BROKER, "", ("listeners", SET, "x")),
    *(changes(LOGGER, name, ("root", SET, "NONSENSE")) for name in ("1", "99")),
    *(changes(METRICS, name, ("interval.ms", SET, "1")) for name in ("m", "")),
    *(changes(METRICS, "m", (key, SET, "x")) for key in ("match", "nope")),
    *(changes(GROUP, name, ("consumer.session.timeout.ms", SET, "1")) for name in ("g", "")),
    changes(GROUP, "g", ("nope", SET, "1")),
    changes(77, "x", ("a", SET, "1")),
    *(replacement(kind, name) for kind, name in ((TOPIC, "nope"), (TOPIC, "a/b"), (BROKER, "99"), (77, "x"))),
    replacement(TOPIC, "t", ("retention.ms", "abc")),
    replacement(TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")),
    *(configs(TOPIC, name) for name in ("nope", "a/b", "")),
    *(configs(BROKER, name) for name in ("99", "abc")),
    *(configs(kind, "") for kind in (LOGGER, METRICS, GROUP, 77)),
    *(election(0, topic, partition) for topic, partition in (("t", 0), ("t", 9), ("nope", 0))),
    election(7, "t", 0),
    *(reassignment("t", 0, *replicas) for replicas in ((99,), (), (1, 1), (-1,))),
    reassignment("nope", 0, 1),
    reassignment("t", 9, 1),
    ("create_acls", 3, {"creations": [RULE]}),
    ("delete_acls", 3, {"filters": [EVERY_RULE]}),
    ("describe_acls", 3, EVERY_RULE),
    *(quota(ENTITY, key, 1.0) for key in ("nope", "connection_creation_rate")),
    *(quota(ENTITY, "producer_byte_rate", value) for value in (-1.0, 0.5, math.nan)),
    *(quota(entity, "producer_byte_rate", 1.0) for entity in ({}, {"planet": "a"}, {"user": ""}, {"ip": "1.2.3.4"})),
    *(
        quota(entity, "connection_creation_rate", 1.0)
        for entity in ({"ip": "nowhere.invalid"}, {"ip": "1.2.3.4", "user": "a"})
    ),
    *(
        quota_filter((kind, how, name))
        for kind, how, name in (
            ("planet", 0, "a"),
            ("user", 7, "a"),
            ("user", 0, None),
            ("user", 1, "x"),
            ("user", 2, "x"),
            ("", 0, "a"),
        )
    ),
    quota_filter(("user", 0, "a"), ("user", 0, "b")),
    quota_filter(("ip", 0, "1.2.3.4"), ("user", 0, "a")),
    *(password(iterations=count) for count in (1, 1_000_000)),
    password(mechanism=9),
    password(name=""),
    password(times=2),
    ("alter_user_scram_credentials", 0, {"deletions": [{"name": "nope", "mechanism": 1}], "upsertions": []}),
    *(("describe_user_scram_credentials", 0, {"users": [{"name": "x"}] * times}) for times in (1, 2)),
    *(
        feature(name, level, 1)
        for name, level in (("metadata.version", 99), ("nope", 1), ("", 1), ("group.version", 9))
    ),
    *(feature("metadata.version", 10, kind) for kind in (1, 2, 7)),
    *(("unregister_broker", 0, {"broker_id": number}) for number in (1, 99, -1)),
    *(
        ("describe_quorum", 2, {"topics": [{"topic_name": name, "partitions": [{"partition_index": 5}]}]})
        for name in ("t", "__cluster_metadata")
    ),
    *(("describe_cluster", 2, {"endpoint_type": kind, "include_fenced_brokers": False}) for kind in (2, 9)),
    ("describe_groups", 6, {"groups": ["nope"]}),
    *(("consumer_group_describe", 1, {"group_ids": [name]}) for name in ("nope", "")),
    *(("find_coordinator", 2, {"key": "x", "key_type": kind}) for kind in (2, 7)),
    *(("find_coordinator", 6, {"coordinator_keys": ["x"], "key_type": kind}) for kind in (2, 7)),
    *(
        ("describe_producers", 0, {"topics": [{"name": name, "partition_indexes": [number]}]})
        for name, number in (("nope", 0), ("t", 9), ("a/b", 0))
    ),
    *(heartbeat(member_id=member, member_epoch=epoch) for member, epoch in (("", 0), ("m", 5), ("m", -1), ("m", -3))),
    heartbeat(member_epoch=-2),
    heartbeat(group_id=""),
    heartbeat(server_assignor="foo"),
    heartbeat(subscribed_topic_names=None),
    heartbeat(subscribed_topic_names=None, subscribed_topic_regex="("),
    heartbeat(topic_partitions=None),
    heartbeat(rebalance_timeout_ms=-1),
    heartbeat(instance_id=""),
    heartbeat(rack_id=""),
    *(produced(SIMPLE("x"), topic, number) for topic, number in (("nope", 0), ("t", 9), ("__consumer_offsets", 0))),
    produced(SIMPLE("x"), acks=2),
    *(produced(batch) for batch in (None, b"", SIMPLE("x") * 2)),
    *(produced(SIMPLE("x", **{field: 5})) for field in ("magic", "crc", "base_offset", "count")),
    produced(SIMPLE("x", attributes=batches.CONTROL)),
    produced(SIMPLE("x", timestamp=4_102_444_800_000)),
    produced(SIMPLE("x" * 2_000_000)),
    produced(SIMPLE("x", **TRANSACTIONAL)),
    produced(SIMPLE("x", **TRANSACTIONAL), transactional_id="nobody"),
]


def refusals(found: Any) -> Iterator[tuple[int, str | None]]:
    """Walk through an answer: each error that has a place for words, and these."""
    if isinstance(found, list):
        for entry in found:
            yield from refusals(entry)
    elif isinstance(found, Struct):
        fields = vars(found)
        if fields.get("error_code") and "error_message" in fields:
            yield fields["error_code"], fields["error_message"]
        for value in fields.values():
            yield from refusals(value)


@pytest.fixture
def ready(client: RawClient) -> RawClient:
    if "t" not in client.topic_names():
        client.create_topic("t", 2)
        client.create_topic("c.d")
    find_coordinator(client, "g")
    find_transaction_coordinator(client, "nobody")
    return client


def test_a_refusal_says_what_was_wrong(ready: RawClient) -> None:
    silent = []
    for api, version, values in REFUSED:
        found = list(refusals(ready.request(api, version, **values)))
        assert found, f"not refused: {api} {values}"
        silent += [(api, values, code, text) for code, text in found if len((text or "").split()) < FEWEST_WORDS]
    assert silent == []
