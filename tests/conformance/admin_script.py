"""What is asked of both brokers by `test_side_by_side_admin`: admin requests, good and bad, in their order.

A chapter is a list of steps that run on one connection, one after the other; `{t}` is a name of the run's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Step(NamedTuple):
    """One request."""

    name: str
    api: str
    version: int
    values: dict[str, Any]


def _config_lists() -> list[Step]:
    asked: dict[str, list[int]] = {
        "all kinds": [],
        "topics": [TOPIC],
        "brokers": [BROKER],
        "loggers": [LOGGER],
        "client metrics": [CLIENT_METRICS],
        "groups": [GROUP],
        "two kinds": [CLIENT_METRICS, GROUP],
        "a kind twice": [BROKER, BROKER],
        "kind 0": [0],
        "kind 1": [1],
        "kind 99": [99],
        "a kind that is and one that is not": [BROKER, 99],
        "a negative kind": [-1],
    }
    return [
        Step("client metrics only", "list_config_resources", 0, {}),
        *(Step(name, "list_config_resources", 1, {"resource_types": kinds}) for name, kinds in asked.items()),
    ]


def _change(kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> dict[str, Any]:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return {"resources": [resource], "validate_only": validate_only}


def _replace(kind: int, name: str, **configs: str | None) -> dict[str, Any]:
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return {"resources": [resource], "validate_only": False}


def _describe(kind: int, name: str, *keys: str, synonyms: bool = True) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    return {"resources": [resource], "include_synonyms": synonyms, "include_documentation": False}


def _altered(kind: int, resource: str, changes: dict[str, list[tuple[str, int, str | None]]]) -> list[Step]:
    """Check each change alone, then what the resource has."""
    return [
        Step(name, "incremental_alter_configs", 1, _change(kind, resource, *rows, validate_only=True))
        for name, rows in changes.items()
    ]


def _client_metrics() -> list[Step]:
    kind, name = CLIENT_METRICS, "{t}"
    bad: dict[str, list[tuple[str, int, str | None]]] = {
        "interval": [("interval.ms", SET, "1000")],
        "interval too short": [("interval.ms", SET, "99")],
        "shortest interval": [("interval.ms", SET, "100")],
        "longest interval": [("interval.ms", SET, "3600000")],
        "interval too long": [("interval.ms", SET, "3600001")],
        "interval not a number": [("interval.ms", SET, "soon")],
        "interval with spaces": [("interval.ms", SET, " 1000 ")],
        "empty interval": [("interval.ms", SET, "")],
        "metrics": [("metrics", SET, "org.apache.kafka.producer.,org.apache.kafka.consumer.")],
        "all metrics": [("metrics", SET, "*")],
        "no metrics": [("metrics", SET, "")],
        "append to metrics": [("metrics", APPEND, "a.b")],
        "subtract from metrics": [("metrics", SUBTRACT, "a.b")],
        "append to interval": [("interval.ms", APPEND, "1000")],
        "match": [("match", SET, "client_id=a.*,client_software_name=apache-kafka-java")],
        "match of all names": [
            (
                "match",
                SET,
                "client_instance_id=.*,client_id=.*,client_software_name=.*,client_software_version=.*,"
                "client_source_address=.*,client_source_port=.*",
            )
        ],
        "match of an unknown name": [("match", SET, "color=red")],
        "match without a pattern": [("match", SET, "client_id")],
        "match with two signs": [("match", SET, "client_id=a=b")],
        "match with a bad pattern": [("match", SET, "client_id=(")],
        "empty match": [("match", SET, "")],
        "append to match": [("match", APPEND, "client_id=b")],
        "unknown key": [("no.such.key", SET, "1")],
        "delete an unknown key": [("no.such.key", DELETE, None)],
        "delete a key": [("interval.ms", DELETE, None)],
        "null": [("interval.ms", SET, None)],
        "a key twice": [("interval.ms", SET, "1000"), ("interval.ms", SET, "2000")],
        "unknown operation": [("interval.ms", 9, "1000")],
    }
    return [
        Step("describe what is not", "describe_configs", 4, _describe(kind, name)),
        Step("describe without a name", "describe_configs", 4, _describe(kind, "")),
        *_altered(kind, name, bad),
        Step("no name", "incremental_alter_configs", 1, _change(kind, "", ("interval.ms", SET, "1000"))),
        Step("nothing has changed", "list_config_resources", 0, {}),
        Step("create", "incremental_alter_configs", 1, _change(kind, name, ("interval.ms", SET, "1000"))),
        Step("describe", "describe_configs", 4, _describe(kind, name)),
        Step("describe without synonyms", "describe_configs", 4, _describe(kind, name, synonyms=False)),
        Step("describe one key", "describe_configs", 4, _describe(kind, name, "match")),
        Step("describe an unknown key", "describe_configs", 4, _describe(kind, name, "nothing")),
        Step("list", "list_config_resources", 0, {}),
        Step("list by kind", "list_config_resources", 1, {"resource_types": [kind]}),
        Step("append", "incremental_alter_configs", 1, _change(kind, name, ("metrics", APPEND, "a.,b."))),
        Step("described again", "describe_configs", 4, _describe(kind, name)),
        Step("subtract", "incremental_alter_configs", 1, _change(kind, name, ("metrics", SUBTRACT, "a."))),
        Step("and again", "describe_configs", 4, _describe(kind, name)),
        Step("replace", "alter_configs", 2, _replace(kind, name, match="client_id=x")),
        Step("replaced", "describe_configs", 4, _describe(kind, name)),
        Step("replace by what is bad", "alter_configs", 2, _replace(kind, name, interval_ms="1")),
        Step("replace by null", "alter_configs", 2, _replace(kind, name, interval_ms=None)),
        Step("replace without a name", "alter_configs", 2, _replace(kind, "", interval_ms="1000")),
        Step("remove", "incremental_alter_configs", 1, _change(kind, name, ("match", DELETE, None))),
        Step("gone", "list_config_resources", 0, {}),
        Step("described as unknown", "describe_configs", 4, _describe(kind, name)),
    ]


def _group_configs() -> list[Step]:
    kind, name = GROUP, "{t}"
    changes: dict[str, list[tuple[str, int, str | None]]] = {
        "session timeout": [("consumer.session.timeout.ms", SET, "50000")],
        "session timeout as short as may be": [("consumer.session.timeout.ms", SET, "45000")],
        "session timeout too short": [("consumer.session.timeout.ms", SET, "44999")],
        "session timeout too long": [("consumer.session.timeout.ms", SET, "60001")],
        "session timeout 0": [("consumer.session.timeout.ms", SET, "0")],
        "session timeout not a number": [("consumer.session.timeout.ms", SET, "long")],
        "heartbeat interval": [("consumer.heartbeat.interval.ms", SET, "6000")],
        "heartbeat interval too short": [("consumer.heartbeat.interval.ms", SET, "4999")],
        "heartbeat interval too long": [("consumer.heartbeat.interval.ms", SET, "15001")],
        "heartbeat interval not below the session timeout": [
            ("consumer.heartbeat.interval.ms", SET, "15000"),
            ("consumer.session.timeout.ms", SET, "15000"),
        ],
        "share session timeout": [("share.session.timeout.ms", SET, "50000")],
        "share session timeout too long": [("share.session.timeout.ms", SET, "60001")],
        "share heartbeat interval": [("share.heartbeat.interval.ms", SET, "6000")],
        "share heartbeat interval too short": [("share.heartbeat.interval.ms", SET, "4999")],
        "lock duration": [("share.record.lock.duration.ms", SET, "20000")],
        "lock duration too short": [("share.record.lock.duration.ms", SET, "14999")],
        "lock duration too long": [("share.record.lock.duration.ms", SET, "60001")],
        "offset reset": [("share.auto.offset.reset", SET, "earliest")],
        "offset reset by duration": [("share.auto.offset.reset", SET, "by_duration:PT1H")],
        "offset reset unknown": [("share.auto.offset.reset", SET, "none")],
        "isolation level": [("share.isolation.level", SET, "read_committed")],
        "isolation level unknown": [("share.isolation.level", SET, "dirty")],
        "streams session timeout": [("streams.session.timeout.ms", SET, "50000")],
        "streams session timeout too long": [("streams.session.timeout.ms", SET, "60001")],
        "streams heartbeat interval": [("streams.heartbeat.interval.ms", SET, "6000")],
        "streams heartbeat interval too long": [("streams.heartbeat.interval.ms", SET, "15001")],
        "standby replicas": [("streams.num.standby.replicas", SET, "1")],
        "standby replicas below 0": [("streams.num.standby.replicas", SET, "-1")],
        "too many standby replicas": [("streams.num.standby.replicas", SET, "3")],
        "assignment interval": [("consumer.assignment.interval.ms", SET, "15000")],
        "assignment interval too long": [("consumer.assignment.interval.ms", SET, "15001")],
        "share assignment interval": [("share.assignment.interval.ms", SET, "15000")],
        "share assignment interval too long": [("share.assignment.interval.ms", SET, "15001")],
        "streams assignment interval": [("streams.assignment.interval.ms", SET, "0")],
        "streams assignment interval too long": [("streams.assignment.interval.ms", SET, "15001")],
        "delivery limit": [("share.delivery.count.limit", SET, "10")],
        "delivery limit too low": [("share.delivery.count.limit", SET, "1")],
        "delivery limit too high": [("share.delivery.count.limit", SET, "11")],
        "record locks": [("share.partition.max.record.locks", SET, "4000")],
        "too few record locks": [("share.partition.max.record.locks", SET, "99")],
        "too many record locks": [("share.partition.max.record.locks", SET, "4001")],
        "renewal": [("share.renew.acknowledge.enable", SET, "false")],
        "renewal neither true nor false": [("share.renew.acknowledge.enable", SET, "maybe")],
        "initial rebalance delay": [("streams.initial.rebalance.delay.ms", SET, "0")],
        "initial rebalance delay below 0": [("streams.initial.rebalance.delay.ms", SET, "-1")],
        "unknown key": [("no.such.key", SET, "1")],
        "delete an unknown key": [("no.such.key", DELETE, None)],
        "delete what is not set": [("consumer.session.timeout.ms", DELETE, None)],
        "append": [("consumer.session.timeout.ms", APPEND, "50000")],
        "null": [("consumer.session.timeout.ms", SET, None)],
        "a key twice": [("consumer.session.timeout.ms", SET, "50000"), ("consumer.session.timeout.ms", SET, "50001")],
    }
    session = "consumer.session.timeout.ms"
    return [
        Step("describe what is not", "describe_configs", 4, _describe(kind, name)),
        Step("describe without a name", "describe_configs", 4, _describe(kind, "")),
        *_altered(kind, name, changes),
        Step("no name", "incremental_alter_configs", 1, _change(kind, "", (session, SET, "50000"))),
        Step("set", "incremental_alter_configs", 1, _change(kind, name, (session, SET, "50000"))),
        Step("describe", "describe_configs", 4, _describe(kind, name, session)),
        Step("list", "list_config_resources", 1, {"resource_types": [kind]}),
        Step("replace", "alter_configs", 2, _replace(kind, name, consumer_heartbeat_interval_ms="7000")),
        Step("replaced", "describe_configs", 4, _describe(kind, name, session, "consumer.heartbeat.interval.ms")),
        Step("replace by what is bad", "alter_configs", 2, _replace(kind, name, consumer_session_timeout_ms="1")),
        Step("replace by nothing", "alter_configs", 2, _replace(kind, name)),
        Step("as before", "describe_configs", 4, _describe(kind, name, session, "consumer.heartbeat.interval.ms")),
        Step("listed no more", "list_config_resources", 1, {"resource_types": [kind]}),
    ]


def _elections() -> list[Step]:
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


def _features() -> list[Step]:
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


def _brokers() -> list[Step]:
    return [
        *(
            Step(f"unregister {broker}", "unregister_broker", 0, {"broker_id": broker})
            for broker in (77, -1, 2**31 - 1)
        ),
    ]


def _quorum() -> list[Step]:
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


SHA_256, SHA_512 = 1, 2


def _upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    secrets = {"salt": b"salty", "salted_password": b"p" * 32}
    return {"name": name, "mechanism": mechanism, "iterations": iterations, **secrets}


def _delete(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def _credentials() -> list[Step]:
    def alter(*upsertions: dict[str, Any], deletions: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
        return {"deletions": list(deletions), "upsertions": list(upsertions)}

    def described(*users: str) -> dict[str, Any]:
        return {"users": [{"name": user} for user in users]}

    user, other = "{t}", "{t}-other"
    refused: dict[str, dict[str, Any]] = {
        "nothing": alter(),
        "no name": alter(_upsert("")),
        "mechanism 0": alter(_upsert(user, 0)),
        "mechanism 3": alter(_upsert(user, 3)),
        "mechanism -1": alter(_upsert(user, -1)),
        "too few iterations": alter(_upsert(user, iterations=4095)),
        "too few iterations for the longer one": alter(_upsert(user, SHA_512, 4095)),
        "too many iterations": alter(_upsert(user, iterations=16385)),
        "no iterations": alter(_upsert(user, iterations=0)),
        "iterations -1": alter(_upsert(user, iterations=-1)),
        "a mechanism twice": alter(_upsert(user), _upsert(user)),
        "upsert and delete": alter(_upsert(user), deletions=(_delete(user),)),
        "delete what is not": alter(deletions=(_delete(user),)),
        "delete nobody's": alter(deletions=(_delete(""),)),
        "delete by an unknown mechanism": alter(deletions=(_delete(user, 9),)),
        "delete twice": alter(deletions=(_delete(user), _delete(user))),
        "one good, one bad": alter(_upsert(user), _upsert(other, iterations=1)),
        "of one user one good, one bad": alter(_upsert(other), _upsert(other, SHA_512, 1)),
        "of one user one good, one bad deletion": alter(_upsert(other), deletions=(_delete(other, SHA_512),)),
    }
    return [
        Step("describe nobody known", "describe_user_scram_credentials", 0, described(user)),
        *(Step(name, "alter_user_scram_credentials", 0, values) for name, values in refused.items()),
        Step("clear", "alter_user_scram_credentials", 0, alter(deletions=(_delete(user),))),
        Step("two mechanisms at once", "alter_user_scram_credentials", 0, alter(_upsert(user), _upsert(user, SHA_512))),
        Step("insert", "alter_user_scram_credentials", 0, alter(_upsert(user))),
        Step("insert another", "alter_user_scram_credentials", 0, alter(_upsert(user, SHA_512, 16384))),
        Step("describe", "describe_user_scram_credentials", 0, described(user)),
        Step("describe twice", "describe_user_scram_credentials", 0, described(user, user)),
        Step("describe one known, one not", "describe_user_scram_credentials", 0, described(user, other)),
        Step("describe nobody", "describe_user_scram_credentials", 0, described("")),
        Step("update", "alter_user_scram_credentials", 0, alter(_upsert(user, iterations=8192))),
        Step("described again", "describe_user_scram_credentials", 0, described(user)),
        Step("delete one", "alter_user_scram_credentials", 0, alter(deletions=(_delete(user),))),
        Step("describe the rest", "describe_user_scram_credentials", 0, described(user)),
        Step("describe everybody", "describe_user_scram_credentials", 0, {"users": None}),
        Step("describe an empty list", "describe_user_scram_credentials", 0, {"users": []}),
        Step("delete the other", "alter_user_scram_credentials", 0, alter(deletions=(_delete(user, SHA_512),))),
        Step("describe what is gone", "describe_user_scram_credentials", 0, described(user)),
        Step("describe everybody again", "describe_user_scram_credentials", 0, {"users": None}),
    ]


def _acls() -> list[Step]:
    def acl(**values: Any) -> dict[str, Any]:
        return {
            "resource_type": TOPIC,
            "resource_name": "{t}",
            "resource_pattern_type": 3,
            "principal": "User:a",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        } | values

    def wanted(**values: Any) -> dict[str, Any]:
        return {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        } | values

    return [
        *(
            step
            for version in (1, 2, 3)
            for step in (
                Step(f"describe, v{version}", "describe_acls", version, wanted()),
                Step(f"create, v{version}", "create_acls", version, {"creations": [acl()]}),
                Step(f"delete, v{version}", "delete_acls", version, {"filters": [wanted()]}),
            )
        ),
        Step("describe of one", "describe_acls", 3, wanted(resource_name_filter="{t}", resource_type_filter=2)),
        Step("create two", "create_acls", 3, {"creations": [acl(), acl(resource_name="")]}),
        Step("create none", "create_acls", 3, {"creations": []}),
        Step("delete two", "delete_acls", 3, {"filters": [wanted(), wanted(resource_type_filter=2)]}),
        Step("delete none", "delete_acls", 3, {"filters": []}),
    ]


def _entity(**names: str | None) -> list[dict[str, Any]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]


def _quota(key: str, value: float, *, remove: bool = False) -> dict[str, Any]:
    return {"key": key, "value": value, "remove": remove}


def _alter_quotas(*entries: tuple[list[dict[str, Any]], list[dict[str, Any]]], validate_only: bool) -> dict[str, Any]:
    return {"entries": [{"entity": entity, "ops": ops} for entity, ops in entries], "validate_only": validate_only}


def _quota_refusals() -> list[Step]:
    user, rate = _entity(user="{t}"), _quota("producer_byte_rate", 1000.0)
    asked: dict[str, list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]] = {
        "nothing": [],
        "no entity": [([], [rate])],
        "no operation": [(user, [])],
        "a user": [(user, [rate])],
        "a client": [(_entity(client_id="{t}"), [rate])],
        "a user and a client": [(_entity(user="{t}", client_id="c"), [rate])],
        "default user": [(_entity(user=None), [rate])],
        "default client of a user": [(_entity(user="{t}", client_id=None), [rate])],
        "empty user": [(_entity(user=""), [rate])],
        "empty client": [(_entity(client_id=""), [rate])],
        "unknown type": [(_entity(color="red"), [rate])],
        "unknown type without a name": [(_entity(color=""), [rate])],
        "empty type": [([{"entity_type": "", "entity_name": "x"}], [rate])],
        "a type twice": [([*user, *_entity(user="b")], [rate])],
        "user and unknown type": [([*user, *_entity(color="b")], [rate])],
        "address": [(_entity(ip="127.0.0.1"), [_quota("connection_creation_rate", 10.0)])],
        "address of six": [(_entity(ip="::1"), [_quota("connection_creation_rate", 10.0)])],
        "default address": [(_entity(ip=None), [_quota("connection_creation_rate", 10.0)])],
        "no address": [(_entity(ip="not an address"), [_quota("connection_creation_rate", 10.0)])],
        "empty address": [(_entity(ip=""), [_quota("connection_creation_rate", 10.0)])],
        "address and user": [(_entity(ip="127.0.0.1", user="a"), [_quota("connection_creation_rate", 10.0)])],
        "byte rate of an address": [(_entity(ip="127.0.0.1"), [rate])],
        "connection rate of a user": [(user, [_quota("connection_creation_rate", 10.0)])],
        "consumer rate": [(user, [_quota("consumer_byte_rate", 1.0)])],
        "percentage": [(user, [_quota("request_percentage", 12.5)])],
        "mutation rate": [(user, [_quota("controller_mutation_rate", 0.5)])],
        "value 0": [(user, [_quota("producer_byte_rate", 0.0)])],
        "value -1": [(user, [_quota("producer_byte_rate", -1.0)])],
        "fraction of a byte": [(user, [_quota("producer_byte_rate", 1.5)])],
        "almost a whole byte": [(user, [_quota("producer_byte_rate", 2.0000001)])],
        "value too large": [(user, [_quota("producer_byte_rate", 1e30)])],
        "fraction of a connection": [(_entity(ip="127.0.0.1"), [_quota("connection_creation_rate", 1.5)])],
        "too many connections": [(_entity(ip="127.0.0.1"), [_quota("connection_creation_rate", 3e9)])],
        "percentage 0": [(user, [_quota("request_percentage", 0.0)])],
        "not a number": [(user, [_quota("request_percentage", float("nan"))])],
        "infinite": [(user, [_quota("request_percentage", float("inf"))])],
        "unknown key": [(user, [_quota("no_such_key", 1.0)])],
        "remove an unknown key": [(user, [_quota("no_such_key", 1.0, remove=True)])],
        "remove what is not set": [(user, [_quota("producer_byte_rate", 0.0, remove=True)])],
        "a key twice": [(user, [rate, _quota("producer_byte_rate", 2000.0)])],
        "set and remove": [(user, [rate, _quota("producer_byte_rate", 0.0, remove=True)])],
        "one good, one bad key": [(user, [rate, _quota("consumer_byte_rate", -1.0)])],
        "an entity twice": [(user, [rate]), (user, [_quota("consumer_byte_rate", 1.0)])],
        "one good, one bad entity": [(user, [rate]), (_entity(color="red"), [rate])],
        "an entity twice, in another order": [
            (_entity(user="a", client_id="b"), [rate]),
            (_entity(client_id="b", user="a"), [rate]),
        ],
        "a scram key": [(user, [_quota("SCRAM-SHA-256", 1.0)])],
        "a long name": [(_entity(user="u" * 300), [rate])],
    }
    return [
        Step(name, "alter_client_quotas", 1, _alter_quotas(*entries, validate_only=True))
        for name, entries in asked.items()
    ]


def _quotas() -> list[Step]:
    exact, default, any_name = 0, 1, 2

    def described(*parts: tuple[str, int, str | None], strict: bool = False) -> dict[str, Any]:
        rows = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in parts]
        return {"components": rows, "strict": strict}

    rate, other = _quota("producer_byte_rate", 1000.0), _quota("consumer_byte_rate", 2000.0)
    entries = [
        (_entity(user="{t}"), [rate, other]),
        (_entity(user="{t}", client_id="c"), [rate]),
        (_entity(user="{t}", client_id=None), [_quota("request_percentage", 12.5)]),
        (_entity(user=None), [other]),
        (_entity(client_id="c"), [other]),
        (_entity(ip="127.0.0.9"), [_quota("connection_creation_rate", 10.0)]),
    ]
    questions: dict[str, dict[str, Any]] = {
        "all": described(),
        "all, strict": described(strict=True),
        "the user": described(("user", exact, "{t}")),
        "the user, strict": described(("user", exact, "{t}"), strict=True),
        "default user": described(("user", default, None)),
        "any user": described(("user", any_name, None)),
        "any user, strict": described(("user", any_name, None), strict=True),
        "user and client": described(("user", exact, "{t}"), ("client-id", exact, "c")),
        "user and default client": described(("user", exact, "{t}"), ("client-id", default, None)),
        "user and any client": described(("user", exact, "{t}"), ("client-id", any_name, None)),
        "any client": described(("client-id", any_name, None)),
        "address": described(("ip", exact, "127.0.0.9")),
        "any address": described(("ip", any_name, None)),
        "nobody": described(("user", exact, "nobody")),
        "unknown type": described(("color", exact, "red")),
        "empty type": described(("", exact, "red")),
        "a type twice": described(("user", exact, "a"), ("user", exact, "b")),
        "address and user": described(("ip", exact, "127.0.0.9"), ("user", exact, "a")),
        "exact without a name": described(("user", exact, None)),
        "default with a name": described(("user", default, "a")),
        "any with a name": described(("user", any_name, "a")),
        "unknown match": described(("user", 3, None)),
        "negative match": described(("user", -1, None)),
    }
    cleared = [(entity, [_quota(one["key"], 0.0, remove=True) for one in ops]) for entity, ops in entries]
    return [
        Step("set", "alter_client_quotas", 1, _alter_quotas(*entries, validate_only=False)),
        *(Step(name, "describe_client_quotas", 1, values) for name, values in questions.items()),
        Step("the user, v0", "describe_client_quotas", 0, questions["the user"]),
        Step(
            "change",
            "alter_client_quotas",
            0,
            _alter_quotas((entries[0][0], [_quota("producer_byte_rate", 5.0)]), validate_only=False),
        ),
        Step("changed", "describe_client_quotas", 1, questions["the user, strict"]),
        Step("clear", "alter_client_quotas", 1, _alter_quotas(*cleared, validate_only=False)),
        Step("cleared", "describe_client_quotas", 1, questions["all"]),
    ]


def _offset_deletions() -> list[Step]:
    def delete(group: str, *partitions: tuple[str, list[int]]) -> dict[str, Any]:
        return {
            "group_id": group,
            "topics": [
                {"name": topic, "partitions": [{"partition_index": number} for number in numbers]}
                for topic, numbers in partitions
            ],
        }

    commit = {
        "group_id": "{t}",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [
            {
                "name": "{t}",
                "partitions": [
                    {"partition_index": number, "committed_offset": 5, "committed_metadata": ""} for number in (0, 1)
                ],
            }
        ],
    }
    fetch = {
        "groups": [{"group_id": "{t}", "topics": [{"name": "{t}", "partition_indexes": [0, 1]}]}],
        "require_stable": False,
    }
    return [
        Step("unknown group", "offset_delete", 0, delete("{t}", ("{t}", [0]))),
        Step("no group", "offset_delete", 0, delete("", ("{t}", [0]))),
        Step("commit", "offset_commit", 8, commit),
        Step("nothing", "offset_delete", 0, delete("{t}")),
        Step("no partition", "offset_delete", 0, delete("{t}", ("{t}", []))),
        Step("unknown topic", "offset_delete", 0, delete("{t}", ("{t}-unknown", [0]))),
        Step("unknown partition", "offset_delete", 0, delete("{t}", ("{t}", [0, 9]))),
        Step("negative partition", "offset_delete", 0, delete("{t}", ("{t}", [-1]))),
        Step("left", "offset_fetch", 8, fetch),
        Step("again", "offset_delete", 0, delete("{t}", ("{t}", [0]))),
        Step("several", "offset_delete", 0, delete("{t}", ("{t}-unknown", [0]), ("{t}", [1, 0]), ("", [0]))),
        Step("none left", "offset_fetch", 8, fetch),
        Step("group without offsets", "offset_delete", 0, delete("{t}", ("{t}", [0]))),
    ]


def _groups() -> list[Step]:
    return [
        Step("describe unknown, v5", "describe_groups", 5, {"groups": ["{t}", ""]}),
        Step("describe unknown, v6", "describe_groups", 6, {"groups": ["{t}", ""]}),
        Step("describe nothing", "describe_groups", 6, {"groups": []}),
        Step("delete unknown", "delete_groups", 2, {"groups_names": ["{t}", "", "{t}"]}),
        Step("delete nothing", "delete_groups", 2, {"groups_names": []}),
        Step("list by unknown state", "list_groups", 5, {"states_filter": ["Nothing"], "types_filter": []}),
        Step("list by unknown type", "list_groups", 5, {"states_filter": [], "types_filter": ["nothing"]}),
    ]


def _topics() -> list[Step]:
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


def _other_configs() -> list[Step]:
    twice = _change(TOPIC, "{t}", ("retention.ms", SET, "1000"))
    twice["resources"] *= 2
    loud = _change(LOGGER, "1", ("root", SET, "DEBUG"))
    levels: dict[str, list[tuple[str, int, str | None]]] = {
        "a level of the root logger": [("root", SET, "ERROR")],
        "no such level": [("root", SET, "LOUD")],
        "a level in small letters": [("root", SET, "debug")],
        "no level for the root logger": [("root", DELETE, None)],
        "no level for a logger that is not": [("no.such", DELETE, None)],
        "subtract from the root logger": [("root", SUBTRACT, "INFO")],
        "a level and one that is not": [("root", SET, "DEBUG"), ("no.such", SET, "DEBUG")],
    }
    return [
        Step("describe an unknown topic", "describe_configs", 4, _describe(TOPIC, "{t}-unknown")),
        Step("describe an illegal topic", "describe_configs", 4, _describe(TOPIC, "a b")),
        Step("describe no topic", "describe_configs", 4, _describe(TOPIC, "")),
        Step("describe another broker", "describe_configs", 4, _describe(BROKER, "77")),
        Step("describe a broker without a number", "describe_configs", 4, _describe(BROKER, "abc")),
        Step("describe the loggers of another broker", "describe_configs", 4, _describe(LOGGER, "77")),
        Step("describe the loggers of no broker", "describe_configs", 4, _describe(LOGGER, "")),
        Step("describe kind 0", "describe_configs", 4, _describe(0, "x")),
        Step("describe kind 99", "describe_configs", 4, _describe(99, "x")),
        Step("a resource twice", "incremental_alter_configs", 1, twice),
        Step("kind 99", "incremental_alter_configs", 1, _change(99, "x", ("a", SET, "1"))),
        Step("kind 0", "incremental_alter_configs", 1, _change(0, "x", ("a", SET, "1"))),
        Step("loggers of another broker", "incremental_alter_configs", 1, _change(LOGGER, "77", ("a", SET, "INFO"))),
        Step("loggers of no broker", "incremental_alter_configs", 1, _change(LOGGER, "", ("a", SET, "INFO"))),
        Step("unknown logger", "incremental_alter_configs", 1, _change(LOGGER, "1", ("no.such", SET, "INFO"))),
        Step("append to a logger", "incremental_alter_configs", 1, _change(LOGGER, "1", ("no.such", APPEND, "INFO"))),
        Step("replace a logger", "alter_configs", 2, _replace(LOGGER, "1", a="INFO")),
        Step("loggers may be validated only", "incremental_alter_configs", 1, {**loud, "validate_only": True}),
        *(
            Step(name, "incremental_alter_configs", 1, _change(LOGGER, "1", *changes))
            for name, changes in levels.items()
        ),
        Step("describe the root logger", "describe_configs", 4, _describe(LOGGER, "1", "root")),
        Step("describe a logger that is not", "describe_configs", 4, _describe(LOGGER, "1", "no.such")),
        *(
            Step(
                f"assignment interval of all brokers {text}",
                "incremental_alter_configs",
                1,
                _change(BROKER, "", ("group.consumer.assignment.interval.ms", SET, text), validate_only=True),
            )
            for text in ("0", "15000", "15001", "-1")
        ),
        Step("replace kind 99", "alter_configs", 2, _replace(99, "1", a="INFO")),
    ]


ZERO_ID, RESERVED_ID, CLIENT = bytes(16), bytes(15) + b"\x01", b"c" * 16


def _telemetry() -> list[Step]:
    def push(client: bytes = CLIENT, subscription: int = 0, **more: Any) -> dict[str, Any]:
        return {
            "client_instance_id": client,
            "subscription_id": subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        } | more

    return [
        Step("push as nobody", "push_telemetry", 0, push(ZERO_ID)),
        Step("push as a reserved id", "push_telemetry", 0, push(RESERVED_ID)),
        Step("push unasked", "push_telemetry", 0, push()),
        Step("subscribe as a reserved id", "get_telemetry_subscriptions", 0, {"client_instance_id": RESERVED_ID}),
        Step("subscribe", "get_telemetry_subscriptions", 0, {"client_instance_id": CLIENT + b""}),
        Step("subscribe again", "get_telemetry_subscriptions", 0, {"client_instance_id": CLIENT}),
        Step("push by another subscription", "push_telemetry", 0, push(b"d" * 16, 12345)),
        Step("push by another codec", "push_telemetry", 0, push(b"e" * 16, compression_type=9)),
        Step("last push", "push_telemetry", 0, push(b"f" * 16, 12345, terminating=True)),
        Step("subscribe as a new client", "get_telemetry_subscriptions", 0, {"client_instance_id": ZERO_ID}),
    ]


CHAPTERS = {
    "lists of config resources": _config_lists,
    "client metrics": _client_metrics,
    "configs of groups": _group_configs,
    "other configs": _other_configs,
    "elections": _elections,
    "features": _features,
    "brokers": _brokers,
    "quorum": _quorum,
    "scram credentials": _credentials,
    "acls": _acls,
    "what quotas may be": _quota_refusals,
    "quotas": _quotas,
    "offset deletions": _offset_deletions,
    "groups": _groups,
    "topics": _topics,
    "telemetry": _telemetry,
}
