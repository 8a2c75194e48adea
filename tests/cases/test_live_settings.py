"""Settings changed while a producer sends: its very next request on the same, warmed connection follows them."""

import time
from collections.abc import Callable

import pytest

from tests.harness import batches
from tests.harness.admin import BROKER, DELETE, SET, change_configs
from tests.harness.batches import Record
from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

HOUR_MS = 3_600_000
MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD = 10, 32, 87


class Warmed:
    """A connection that has sent the same kind of request often, and another one that changes settings."""

    def __init__(self, producer: RawClient, admin: RawClient, topic: str, acts_at_once: bool) -> None:
        self.producer = producer
        self.topic = topic
        self._admin = admin
        self._acts_at_once = acts_at_once
        for _ in range(4):
            self.send()

    def send(self, *, key: bytes | None = b"k", ahead_ms: int = 0, size: int = 300) -> Struct:
        """Produce one record."""
        record = Record(b"v" * size, key, timestamp=int(time.time() * 1000) + ahead_ms)
        return self.producer.produce(self.topic, batches.build([record]), acks=1)

    def codec(self) -> int:
        """Produce, and tell the codec of what was stored."""
        offset = self.send().base_offset
        [stored] = batches.parse(self._admin.fetch(self.topic, offset).records)
        return stored.codec

    def change(self, name: str, value: str | None, *, resource: str = "", kind: int | None = None) -> None:
        """Set a config of the topic, or of a broker, or take it back (None)."""
        row = (name, DELETE if value is None else SET, value)
        kinds = {} if kind is None else {"kind": kind}
        result = change_configs(self._admin, self.topic if kind is None else resource, [row], **kinds)
        assert result.error_code == 0, result

    def expect(self, check: Callable[[], bool]) -> None:
        """Check the next request; the reference applies settings some moments after its answer."""
        if self._acts_at_once:
            assert check()
        else:
            eventually(check, what="the new settings")


@pytest.fixture
def warmed(connect, fresh, is_reference: bool) -> Warmed:
    topic = fresh("live")
    admin = connect()
    admin.create_topic(topic)
    return Warmed(connect(), admin, topic, not is_reference)


def test_compression_type(warmed: Warmed) -> None:
    for name in ("gzip", "zstd", "snappy", "lz4", "uncompressed"):
        warmed.change("compression.type", name)
        warmed.expect(lambda name=name: warmed.codec() == batches.CODECS[name])
    warmed.change("compression.type", "lz4")
    warmed.expect(lambda: warmed.codec() == batches.LZ4)
    warmed.change("compression.type", None)
    warmed.expect(lambda: warmed.codec() == batches.NONE)


def test_max_message_bytes(warmed: Warmed) -> None:
    warmed.change("max.message.bytes", "200")
    warmed.expect(lambda: warmed.send().error_code == MESSAGE_TOO_LARGE)
    assert warmed.send(size=50).error_code == 0
    warmed.change("max.message.bytes", "2000000")
    warmed.expect(lambda: warmed.send(size=1_900_000).error_code == 0)
    warmed.change("max.message.bytes", None)
    warmed.expect(lambda: warmed.send(size=1_900_000).error_code == MESSAGE_TOO_LARGE)


def test_message_timestamp_type(warmed: Warmed) -> None:
    assert warmed.send().log_append_time_ms == -1
    warmed.change("message.timestamp.type", "LogAppendTime")
    warmed.expect(lambda: abs(warmed.send(ahead_ms=-HOUR_MS).log_append_time_ms - time.time() * 1000) < 5000)
    warmed.change("message.timestamp.type", None)
    warmed.expect(lambda: warmed.send().log_append_time_ms == -1)


def test_the_window_of_timestamps(warmed: Warmed) -> None:
    assert warmed.send(ahead_ms=HOUR_MS // 2).error_code == 0
    warmed.change("message.timestamp.after.max.ms", "60000")
    warmed.expect(lambda: warmed.send(ahead_ms=HOUR_MS // 2).error_code == INVALID_TIMESTAMP)
    warmed.change("message.timestamp.before.max.ms", "60000")
    warmed.expect(lambda: warmed.send(ahead_ms=-HOUR_MS // 2).error_code == INVALID_TIMESTAMP)
    assert warmed.send().error_code == 0


def test_cleanup_policy(warmed: Warmed) -> None:
    assert warmed.send(key=None).error_code == 0
    warmed.change("cleanup.policy", "compact,delete")
    warmed.expect(lambda: warmed.send(key=None).error_code == INVALID_RECORD)
    assert warmed.send().error_code == 0
    warmed.change("cleanup.policy", "delete")
    warmed.expect(lambda: warmed.send(key=None).error_code == 0)


def test_min_insync_replicas_above_the_replicas_asks_for_all_of_them(warmed: Warmed) -> None:
    warmed.change("min.insync.replicas", "5")
    for acks in (1, -1):
        record = Record(b"v", b"k", timestamp=int(time.time() * 1000))
        assert warmed.producer.produce(warmed.topic, batches.build([record]), acks=acks).error_code == 0


@pytest.mark.parametrize("resource", ["", "1"], ids=["all brokers", "this broker"])
def test_what_the_topic_inherits(warmed: Warmed, resource: str) -> None:
    def inherit(name: str, value: str | None) -> None:
        warmed.change(name, value, resource=resource, kind=BROKER)

    inherit("message.max.bytes", "200")
    warmed.expect(lambda: warmed.send().error_code == MESSAGE_TOO_LARGE)
    warmed.change("max.message.bytes", "100000")
    warmed.expect(lambda: warmed.send().error_code == 0)
    warmed.change("max.message.bytes", None)
    warmed.expect(lambda: warmed.send().error_code == MESSAGE_TOO_LARGE)
    inherit("message.max.bytes", None)
    warmed.expect(lambda: warmed.send().error_code == 0)
    inherit("compression.type", "gzip")
    warmed.expect(lambda: warmed.codec() == batches.GZIP)
    inherit("compression.type", None)
    warmed.expect(lambda: warmed.codec() == batches.NONE)
