"""The table is complete, without repetition, and consistent with itself."""

from __future__ import annotations

import pytest

from config.key import ConfigType
from config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, find_broker_key, join
from config.keys.rows import INT, broker

ROWS = [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]

VISIBLE_BROKER_DEFAULTS = {
    "message.max.bytes": "1048588",
    "fetch.max.bytes": "57671680",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "auto.create.topics.enable": "true",
    "delete.topic.enable": "true",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
    "log.cleanup.policy": "delete",
    "log.message.timestamp.type": "CreateTime",
    "log.message.timestamp.after.max.ms": "3600000",
    "request.timeout.ms": "30000",
    "connections.max.idle.ms": "600000",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "offsets.retention.minutes": "10080",
    "offset.metadata.max.bytes": "4096",
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "transaction.max.timeout.ms": "900000",
    "producer.id.expiration.ms": "86400000",
    "log.dir": "/tmp/kafka-logs",
    "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308",
}

VISIBLE_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "min.compaction.lag.ms": "0",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.5",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
    "leader.replication.throttled.replicas": "",
    "follower.replication.throttled.replicas": "",
    "remote.storage.enable": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
}


def test_defaults_that_clients_see_are_kafkas():
    assert {name: BROKER_KEYS[name].default_text for name in VISIBLE_BROKER_DEFAULTS} == VISIBLE_BROKER_DEFAULTS
    assert {name: TOPIC_KEYS[name].default_text for name in VISIBLE_TOPIC_DEFAULTS} == VISIBLE_TOPIC_DEFAULTS


def test_keys_removed_in_kafka_4_are_unknown():
    assert not {"message.format.version", "message.downconversion.enable"} & set(TOPIC_KEYS)
    assert "zookeeper.connect" not in BROKER_KEYS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.scope}:{row.name}")
def test_row_is_documented_and_its_default_is_legal(row):
    assert row.doc.endswith(".") and len(row.doc) > 20 and "\n" not in row.doc
    if row.default_text is not None and row.name != "remote.log.metadata.manager.listener.name":
        assert row.parse(row.default_text) == row.default
    assert not row.is_sensitive or row.default is None


def test_doubled_row_is_refused():
    row = broker("some.key", INT, 1, None, "low", "A key.")
    again = broker("some.key", INT, 2, None, "low", "The same key.")
    with pytest.raises(ValueError, match=r"some\.key appears twice"):
        join(((row,), (again,)))


def test_topic_and_group_defaults_agree_with_their_synonyms():
    for row in [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        inherited = [
            synonym.convert(BROKER_KEYS[synonym.name].default)
            for synonym in row.synonyms
            if BROKER_KEYS[synonym.name].default is not None
        ]
        assert not inherited or inherited[0] == row.default, row.name


def test_units_other_than_the_first_are_read_only():
    """The dynamic key of a setting is its first synonym; the others need a restart."""
    for name in ("log.retention.hours", "log.retention.minutes", "log.roll.hours", "log.roll.jitter.hours"):
        assert BROKER_KEYS[name].is_read_only
    assert BROKER_KEYS["log.flush.scheduler.interval.ms"].is_read_only
    for row in TOPIC_KEYS.values():
        if row.synonyms:
            first = BROKER_KEYS[row.synonyms[0].name]
            assert not first.is_read_only, first.name


def test_own_keys_bear_our_prefix():
    own = {name for name in BROKER_KEYS if name.startswith("odradek.")}
    assert {"odradek.http.listener", "odradek.shutdown.timeout.ms", "odradek.log.flush.on.append"} <= own


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.internal.ssl.keystore.password", "ssl.keystore.password"),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("ssl.keystore.password", "ssl.keystore.password"),
    ],
)
def test_listener_prefix_leads_to_the_plain_key(name, base):
    row = find_broker_key(name)
    assert row is not None and row.name == base and row.type is ConfigType.PASSWORD


def test_unknown_names_have_no_row():
    assert find_broker_key("no.such.key") is None
    assert find_broker_key("listener.name.internal.no.such.key") is None
