"""What is refused of produced batches and of configs is refused with Apache Kafka's error codes."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.admin import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alter_configs,
    change_configs,
    described,
    set_configs,
)
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually, produce_values

pytestmark = pytest.mark.jvm

NOW = int(time.time() * 1000)
HOUR_MS = 3_600_000
THREE = [Record(b"v%d" % number, b"k%d" % number, timestamp=NOW + number) for number in range(3)]


def _timed(*timestamps: int, **options: Any) -> bytes:
    records = [Record(b"v", b"k", timestamp=timestamp) for timestamp in timestamps]
    return batches.build(records, **options)


def _keyed(*keys: bytes | None, **options: Any) -> bytes:
    return batches.build([Record(b"v", key, timestamp=NOW) for key in keys], **options)


def _old(magic: int) -> bytes:
    return batches.old_message(b"v", magic=magic, key=b"k", timestamp=NOW)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A batch that is sent to a topic with these configs, by these versions."""

    batch: bytes
    configs: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: tuple[int, ...] = (3, 7, 8, 9, 12)


HOUR = {"message_timestamp_before_max_ms": str(HOUR_MS), "message_timestamp_after_max_ms": str(HOUR_MS)}
APPEND_TIME = {"message_timestamp_type": "LogAppendTime"}
COMPACT = {"cleanup_policy": "compact"}
SMALL = {"max_message_bytes": "200"}

ATTEMPTS: dict[str, Attempt] = {
    "good": Attempt(batches.build(THREE)),
    # timestamps
    "too old": Attempt(_timed(NOW, NOW - 2 * HOUR_MS, NOW), HOUR),
    "too old, all": Attempt(_timed(*[NOW - 2 * HOUR_MS] * 3), HOUR),
    "too old, lz4": Attempt(_timed(NOW, NOW - 2 * HOUR_MS, NOW, codec=batches.LZ4), HOUR),
    "too young": Attempt(_timed(NOW, NOW + 2 * HOUR_MS, NOW), HOUR),
    "too young, gzip": Attempt(_timed(NOW, NOW + 2 * HOUR_MS, codec=batches.GZIP), HOUR),
    "too young by default": Attempt(_timed(NOW + 2 * HOUR_MS)),
    "no timestamp": Attempt(_timed(-1, -1), HOUR),
    "no timestamp in the middle": Attempt(_timed(NOW, -1, NOW), HOUR),
    "timestamp -2": Attempt(_timed(-2)),
    "greatest timestamp": Attempt(_timed(2**63 - 1)),
    "append time, too old": Attempt(_timed(5), HOUR | APPEND_TIME),
    "append time bit sent to append time": Attempt(_timed(NOW, attributes=batches.LOG_APPEND_TIME), APPEND_TIME),
    "append time bit sent to create time": Attempt(_timed(NOW, attributes=batches.LOG_APPEND_TIME)),
    "append time bit without timestamp": Attempt(_timed(-1, attributes=batches.LOG_APPEND_TIME)),
    # keys
    "keyless in the middle": Attempt(_keyed(b"a", None, b"c"), COMPACT),
    "keyless, all": Attempt(_keyed(None, None), COMPACT),
    "keyless, zstd": Attempt(_keyed(b"a", None, b"c", codec=batches.ZSTD), COMPACT, (7, 8, 9, 12)),
    "keyless in compact,delete": Attempt(_keyed(None), {"cleanup_policy": "compact,delete"}),
    "empty key": Attempt(_keyed(b""), COMPACT),
    "keyless and too old": Attempt(
        batches.build([Record(b"v", None, timestamp=NOW), Record(b"v", b"k", timestamp=5)]), COMPACT | HOUR
    ),
    "more than ten bad records": Attempt(_keyed(*[None] * 15), COMPACT),
    # sizes
    "too large by one": Attempt(batches.of_size(201), SMALL),
    "as large as may be": Attempt(batches.of_size(200), SMALL),
    "too large by default": Attempt(batches.of_size(1_048_589), versions=(9,)),
    "largest by default": Attempt(batches.of_size(1_048_588), versions=(9,)),
    "larger than a segment": Attempt(batches.of_size(301), {"internal_segment_bytes": "300"}),
    "as large as a segment": Attempt(batches.of_size(300), {"internal_segment_bytes": "300"}),
    "too large once decompressed": Attempt(
        batches.build([Record(bytes(5000), b"k", timestamp=NOW)], codec=batches.GZIP),
        {"max_message_bytes": "1000", "compression_type": "uncompressed"},
    ),
    "no message may pass": Attempt(batches.build(THREE), {"max_message_bytes": "0"}),
    # codecs
    "gzip of noise": Attempt(batches.build(THREE, codec=batches.GZIP, section=b"\x01" * 60)),
    "snappy of noise": Attempt(batches.build(THREE, codec=batches.SNAPPY, section=b"\xff" * 60)),
    "lz4 of noise": Attempt(batches.build(THREE, codec=batches.LZ4, section=b"\x01" * 60)),
    "zstd of noise": Attempt(batches.build(THREE, codec=batches.ZSTD, section=b"\x01" * 60), versions=(7, 9, 12)),
    "codec 5": Attempt(batches.build(THREE, codec=5, section=b"\x01" * 60)),
    "codec 7": Attempt(batches.build(THREE, codec=7, section=b"\x01" * 60)),
    "zstd before version 7": Attempt(batches.build(THREE, codec=batches.ZSTD), versions=(3, 6)),
    "zstd to a gzip topic": Attempt(batches.build(THREE, codec=batches.ZSTD), {"compression_type": "gzip"}, (3, 7)),
    # formats
    "magic 0": Attempt(_old(0)),
    "magic 1": Attempt(_old(1)),
    "magic 3": Attempt(batches.build(THREE, magic=3)),
    "wrong crc": Attempt(batches.build(THREE, crc=1)),
    "two batches": Attempt(batches.build(THREE) * 2),
    "no batch": Attempt(b""),
    "cut short": Attempt(batches.build(THREE)[:-5]),
    "count above": Attempt(batches.build(THREE, count=4)),
    "count below": Attempt(batches.build(THREE, count=2)),
    "count 0": Attempt(batches.build([], count=0, last_offset_delta=0)),
    "last offset delta above": Attempt(batches.build(THREE, last_offset_delta=5)),
    "base offset": Attempt(batches.build(THREE, base_offset=5)),
    "control": Attempt(batches.build(THREE, attributes=batches.CONTROL)),
    "producer without sequence": Attempt(batches.build(THREE, producer_id=7, producer_epoch=0)),
    "largest timestamp is wrong": Attempt(batches.build(THREE, max_timestamp=NOW + 10 * HOUR_MS)),
}


# The reference answers these with UNKNOWN_SERVER_ERROR, which tells clients neither what is wrong nor not to try again.
CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR = 2, 87, -1
MORE_EXACT = {
    **dict.fromkeys(("gzip of noise", "snappy of noise", "lz4 of noise", "zstd of noise"), CORRUPT_MESSAGE),
    **dict.fromkeys(("codec 5", "codec 7"), INVALID_RECORD),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_produce(pair: Pair, unique: str, name: str) -> None:
    attempt = ATTEMPTS[name]

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, **{"retention_ms": "-1"} | attempt.configs)
        shown = []
        for version in client.offered("produce", *attempt.versions):
            [entry] = client.request("produce", version, **produce_values(unique, {0: attempt.batch})).responses
            [row] = entry.partition_responses
            errors = [error.batch_index for error in row.record_errors] if version >= 8 else None
            shown.append((version, row.error_code, row.base_offset, errors, row.log_append_time_ms == -1))
        stored = [(batch.count, batch.attributes) for batch in batches.parse(client.fetch_all(unique))]
        return shown, stored, client.end_offset(unique)

    if name in MORE_EXACT:
        ours, kafka = pair.both(run)
        assert {row[1] for row in ours[0]} == {MORE_EXACT[name]}
        assert {row[1] for row in kafka[0]} == {UNKNOWN_SERVER_ERROR}
        assert ours[1:] == kafka[1:]
    else:
        pair.same(run)


# What is set on a topic: key, value. NaN is not among them: the reference takes it as a ratio, which we do not.
SETTINGS: list[tuple[str, str | None]] = [
    *[("segment.bytes", value) for value in ("1048576", "1048575", "0", "-1", "abc", "2147483648", "1.5", " 2000000 ")],
    *[("segment.ms", value) for value in ("1", "0", "-1", str(2**63), str(2**63 - 1))],
    *[("segment.jitter.ms", value) for value in ("0", "-1")],
    *[("segment.index.bytes", value) for value in ("4", "3", "11")],
    *[("index.interval.bytes", value) for value in ("0", "-1")],
    *[("file.delete.delay.ms", value) for value in ("0", "-1")],
    *[("flush.messages", value) for value in ("1", "0")],
    *[("flush.ms", value) for value in ("0", "-1")],
    *[("retention.ms", value) for value in ("-1", "-2", "0", "", None, "9" * 30)],
    *[("retention.bytes", value) for value in ("-1", "-7", "0", "x")],
    *[("max.message.bytes", value) for value in ("0", "-1")],
    *[
        ("cleanup.policy", value)
        for value in ("compact", "delete,compact", " compact , delete ", "", "none", "Compact", "delete,delete", "a,b")
    ],
    *[("compression.type", value) for value in ("producer", "uncompressed", "zstd", "none", "GZIP", "")],
    *[("compression.gzip.level", value) for value in ("-1", "0", "1", "9", "10")],
    *[("compression.lz4.level", value) for value in ("0", "1", "17", "18")],
    *[("compression.zstd.level", value) for value in ("-131072", "-131073", "22", "23")],
    *[("min.compaction.lag.ms", value) for value in ("0", "-1")],
    *[("max.compaction.lag.ms", value) for value in ("1", "0")],
    *[("min.cleanable.dirty.ratio", value) for value in ("0", "1", "1.1", "-0.1", "half")],
    *[("delete.retention.ms", value) for value in ("0", "-1")],
    *[("message.timestamp.type", value) for value in ("LogAppendTime", "logappendtime", "now")],
    *[("message.timestamp.before.max.ms", value) for value in ("0", "-1")],
    *[("message.timestamp.after.max.ms", value) for value in ("0", "-1")],
    *[("preallocate", value) for value in ("true", "TRUE", "yes", "1")],
    *[("unclean.leader.election.enable", value) for value in ("true", "maybe")],
    *[("min.insync.replicas", value) for value in ("1", "0")],
    *[("remote.storage.enable", value) for value in ("true", "false")],
    *[("remote.log.copy.disable", value) for value in ("true", "false")],
    *[("local.retention.ms", value) for value in ("-2", "-1", "-3", "1000")],
    *[("local.retention.bytes", value) for value in ("-2", "-1", "-3", "1000")],
    *[("no.such.key", "1"), ("", "1")],
]


def test_settings_of_topics(pair: Pair, unique: str) -> None:
    """All at once, on creation, as a change and as a replacement; what differs is told by key and value."""

    def run(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
        client.create_topic(unique)
        shown: dict[str, Any] = {}
        for key, value in SETTINGS:
            created = _create_code(client, key, value)
            changed = change_configs(client, unique, [(key, SET, value)], validate_only=True).error_code
            replaced = alter_configs(client, unique, {key: value}, validate_only=True).error_code
            shown[f"{key}={value}"] = (created, changed, replaced)
        return shown

    pair.same(run)


def _create_code(client: RawClient, key: str, value: str | None) -> int:
    topic = {
        "name": "would-be",
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value}],
    }
    [result] = client.request("create_topics", 7, topics=[topic], timeout_ms=15000, validate_only=True).topics
    return int(result.error_code)


CHANGES: dict[str, list[tuple[str, int, str | None]]] = {
    "lags in conflict": [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
    "the same key twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
    "set and delete": [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
    "append to a list": [("cleanup.policy", APPEND, "compact")],
    "append what is there": [("cleanup.policy", APPEND, "delete")],
    "subtract from a list": [("cleanup.policy", SUBTRACT, "delete")],
    "subtract what is not there": [("cleanup.policy", SUBTRACT, "compact")],
    "append to a number": [("retention.ms", APPEND, "1")],
    "subtract from a number": [("retention.ms", SUBTRACT, "1")],
    "delete what is not set": [("retention.ms", DELETE, None)],
    "delete an unknown key": [("no.such.key", DELETE, None)],
    "set to null": [("retention.ms", SET, None)],
    "one good, one bad": [("retention.ms", SET, "1"), ("flush.ms", SET, "x")],
    "nothing": [],
}


def test_changes_of_topics(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for number, (name, changes) in enumerate(CHANGES.items()):
            topic = f"{unique}-{number}"
            client.create_topic(topic)
            code = change_configs(client, topic, changes).error_code
            # Changes apply one after the other, so what is seen with the next one is what the first one did.
            set_configs(client, topic, segment_jitter_ms="7")
            eventually(lambda topic=topic: described(client, topic, "segment.jitter.ms")["segment.jitter.ms"][0] == "7")
            keys = {key for key, _, _ in changes} & {"retention.ms", "flush.ms", "cleanup.policy"} or {"retention.ms"}
            shown[name] = (code, described(client, topic, *sorted(keys)))
        return shown

    pair.same(run)


RESOURCES = {
    "missing topic": (TOPIC, "missing", "retention.ms", "1"),
    "illegal topic": (TOPIC, "il legal", "retention.ms", "1"),
    "empty topic": (TOPIC, "", "retention.ms", "1"),
    "other broker": (BROKER, "77", "log.retention.ms", "1000"),
    "broker without a number": (BROKER, "abc", "log.retention.ms", "1000"),
    "read-only": (BROKER, "1", "log.retention.hours", "1"),
    "read-only minutes": (BROKER, "1", "log.retention.minutes", "1"),
    "read-only roll": (BROKER, "1", "log.roll.hours", "1"),
    "read-only jitter": (BROKER, "1", "log.roll.jitter.hours", "1"),
    "read-only directories": (BROKER, "1", "log.dirs", "/x"),
    "read-only by default": (BROKER, "", "node.id", "3"),
    "unknown key": (BROKER, "1", "no.such.key", "1"),
    "bad number": (BROKER, "1", "log.retention.ms", "abc"),
    "retention 0": (BROKER, "1", "log.retention.ms", "0"),
    "bad ratio": (BROKER, "1", "log.cleaner.min.cleanable.ratio", "2"),
    "bad policy": (BROKER, "", "log.cleanup.policy", "x"),
    "cleaner threads 0": (BROKER, "", "log.cleaner.threads", "0"),
    "cleaner buffer too small": (BROKER, "", "log.cleaner.dedupe.buffer.size", "1000"),
    "segment too small": (BROKER, "", "log.segment.bytes", "10"),
    "message limit below 0": (BROKER, "", "message.max.bytes", "-1"),
    "kind 77": (77, "1", "retention.ms", "1"),
}


def test_changes_of_other_resources(pair: Pair) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> dict[str, int]:
        return {
            name: change_configs(client, resource, [(key, SET, value)], kind=kind, validate_only=True).error_code
            for name, (kind, resource, key, value) in RESOURCES.items()
        }

    pair.same(run)
