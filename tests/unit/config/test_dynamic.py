"""What DescribeConfigs is told."""

from __future__ import annotations

from config.dynamic import (
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from config.keys import BROKER_KEYS, TOPIC_KEYS
from config.load import load
from config.resolve import ConfigSource, Resolver

EMPTY = Resolver({})


def test_topic_description_has_every_key_once():
    entries = describe_topic(EMPTY, {"retention.ms": "1000"})
    assert [entry.name for entry in entries] == [name for name, row in TOPIC_KEYS.items() if not row.internal]
    by_name = {entry.name: entry for entry in entries}
    assert by_name["retention.ms"].value == "1000"
    assert by_name["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC
    assert {entry.source for entry in entries if entry.name != "retention.ms"} == {ConfigSource.DEFAULT}
    assert not any(entry.read_only or entry.is_sensitive for entry in entries)
    assert by_name["retention.ms"].type_code == 5 and by_name["cleanup.policy"].type_code == 7
    assert by_name["retention.ms"].documentation


def test_names_restrict_and_unknown_ones_are_left_out():
    entries = describe_topic(EMPTY, {}, ["retention.ms", "cleanup.policy", "no.such"])
    assert {entry.name for entry in entries} == {"retention.ms", "cleanup.policy"}
    assert len(describe_topic(EMPTY, {}, [])) == len(describe_topic(EMPTY, {}))


def test_internal_topic_key_shows_only_once_set():
    assert describe_topic(EMPTY, {}, ["internal.segment.bytes"]) == []
    assert describe_topic(EMPTY, {"internal.segment.bytes": "99"}, ["internal.segment.bytes"])[0].value == "99"


def test_broker_description():
    overrides = ["ssl.key.password=secret", "strange.key=v", "listener.name.a.ssl.key.password=s", "num.partitions=4"]
    entries = {entry.name: entry for entry in describe_broker(load(None, {}, overrides).resolver)}
    assert {name for name, row in BROKER_KEYS.items() if not row.internal} <= set(entries)
    assert entries["num.partitions"].value == "4" and entries["num.partitions"].read_only
    assert entries["num.partitions"].source is ConfigSource.STATIC_BROKER
    assert not entries["log.retention.ms"].read_only and entries["log.retention.ms"].value is None
    for secret in ("ssl.key.password", "strange.key", "listener.name.a.ssl.key.password"):
        assert entries[secret].is_sensitive and entries[secret].value is None
        assert all(link.text is None for link in entries[secret].synonyms)
    assert entries["strange.key"].type_code == 0 and entries["strange.key"].documentation is None


def test_broker_defaults_list_only_that_layer():
    resolver = Resolver({}, {"log.retention.ms": "1"}, {"log.retention.ms": "2", "log.segment.bytes": "1048576"})
    entries = {entry.name: entry for entry in describe_broker_defaults(resolver)}
    assert {name: entry.value for name, entry in entries.items()} == {
        "log.retention.ms": "2",
        "log.segment.bytes": "1048576",
    }
    assert {entry.source for entry in entries.values()} == {ConfigSource.DYNAMIC_DEFAULT_BROKER}
    assert describe_broker_defaults(EMPTY) == []


def test_a_group_shows_where_each_value_comes_from():
    resolver = load(None, {}, ["group.consumer.session.timeout.ms=50000"]).resolver
    overrides = {"consumer.heartbeat.interval.ms": "6000", "share.isolation.level": "read_committed"}
    entries = {entry.name: entry for entry in describe_group(resolver, overrides)}

    def shown(name):
        entry = entries[name]
        return entry.value, entry.source, [(link.name, link.text, link.source) for link in entry.synonyms]

    own, static, default = ConfigSource.GROUP, ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT
    inherited = "group.consumer.session.timeout.ms"
    assert shown("consumer.session.timeout.ms") == (
        *("50000", static),
        [(inherited, "50000", static), (inherited, "45000", default)],
    )
    assert shown("consumer.heartbeat.interval.ms") == (
        *("6000", own),
        [("consumer.heartbeat.interval.ms", "6000", own), ("group.consumer.heartbeat.interval.ms", "5000", default)],
    )
    assert shown("share.isolation.level") == (
        *("read_committed", own),
        [("share.isolation.level", "read_committed", own), ("share.isolation.level", "read_uncommitted", default)],
    )
    assert shown("share.auto.offset.reset") == ("latest", default, [("share.auto.offset.reset", "latest", default)])
