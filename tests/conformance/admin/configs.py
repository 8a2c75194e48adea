"""Chapters about configs: which resources have any, and what may be set."""

from __future__ import annotations

from typing import Any

from tests.conformance.admin.step import Step

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


SET, DELETE, APPEND, SUBTRACT = range(4)


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


def config_lists() -> list[Step]:
    """List resources of each kind."""
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


def client_metrics() -> list[Step]:
    """Give a subscription of client metrics good and bad configs."""
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


def group_configs() -> list[Step]:
    """Give a group good and bad configs."""
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


def other_configs() -> list[Step]:
    """Ask for configs of what is not, and for levels of loggers."""
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
