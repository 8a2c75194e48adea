"""COMP-06 and COMP-07: cleaning after limits, codecs and policies have changed."""

import random
import time

import pytest

from tests.harness import batches
from tests.harness.admin import delete_records, set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import START, active_base, folder, wait_until_cleaned
from tests.harness.raw import RawClient, eventually

PROPERTIES = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "100",
}
CLEANED_WITHIN_S = 15


def _batch(*pairs: tuple[bytes, bytes | None], at: int = START, **options: object) -> bytes:
    return batches.build([Record(value, key, timestamp=at) for key, value in pairs], **options)


def _newest(client: RawClient, topic: str, offset: int = 0) -> dict[bytes | None, bytes | None]:
    """Read everything from an offset on, and return the last value of each key."""
    return {record.key: record.value for record in batches.records_of(client.fetch_all(topic, offset=offset))}


def _clean(broker: BrokerProcess, client: RawClient, topic: str, number: int) -> None:
    """Append a record that begins a segment, and wait until all before it is cleaned."""
    padding = random.Random(number).randbytes(60_000)
    client.append(topic, _batch((b"roll-%d" % number, padding), at=START + 10_000 * number), acks=-1)
    wait_until_cleaned(broker, topic, active_base(broker, topic))


@pytest.mark.parametrize("codec", [batches.NONE, batches.GZIP], ids=["uncompressed", "gzip"])
def test_comp_06_batches_above_the_limits_are_cleaned(
    broker: BrokerProcess, client: RawClient, fresh, codec: int
) -> None:
    topic, other = fresh(), fresh("other")
    # However little is dirty beside the large ones.
    client.create_topic(topic, cleanup_policy="compact", segment_ms="5000", min_cleanable_dirty_ratio="0")
    client.create_topic(other, cleanup_policy="compact", internal_segment_bytes="100000")
    large = {b"large-%d" % number: random.Random(number).randbytes(800_000) for number in range(3)}
    for key, value in large.items():
        client.append(topic, _batch((key, value), codec=codec))
    small = [b"small-%d" % number for number in range(2000)]
    client.append(topic, _batch(*((key, b"1") for key in small), codec=codec))
    set_configs(client, topic, max_message_bytes="100000", internal_segment_bytes="100000")
    # The limits hold from the next append on; before, the large batch would be taken.
    eventually(lambda: client.produce(topic, _batch((b"probe", bytes(200_000)))).error_code == 10, what="the limit")
    for round_number in range(1, 4):
        client.append(topic, _batch(*((key, b"%d" % round_number) for key in small), codec=codec, at=START + 100))
        client.append(other, _batch(*((b"k%d" % key, b"%d" % round_number) for key in range(2000))))
        begun = time.monotonic()
        for name in (topic, other):
            _clean(broker, client, name, round_number)
        assert time.monotonic() - begun < CLEANED_WITHIN_S
        found = _newest(client, topic)
        assert {key: found[key] for key in large} == large
        assert {found[key] for key in small} == {b"%d" % round_number}
        stored = batches.records_of(client.fetch_all(topic))
        assert len([record for record in stored if record.key == small[0]]) <= 2


def test_comp_06_data_grows_by_another_codec(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="100000", compression_type="gzip")
    keys = [b"k%d" % number for number in range(300)]
    for _ in range(2):
        for first in range(0, 300, 50):
            client.append(topic, _batch(*((key, bytes(1500)) for key in keys[first : first + 50])))
    set_configs(client, topic, compression_type="uncompressed")
    eventually(lambda: _codec_of_next(client, topic) == batches.NONE, what="the new codec")
    for number in range(1, 4):
        _clean(broker, client, topic, number)
        found = _newest(client, topic)
        assert {key: found[key] for key in keys} == dict.fromkeys(keys, bytes(1500))


def _codec_of_next(client: RawClient, topic: str) -> int:
    offset = client.append(topic, _batch((b"probe", bytes(500))))
    return batches.parse(client.fetch(topic, offset).records)[0].codec


def test_comp_07_policies_take_turns(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    client.create_topic(topic, cleanup_policy="compact", segment_ms="1", retention_ms="-1")
    now = int(time.time() * 1000)
    wanted: dict[bytes, bytes] = {}

    def write(count: int, *, first_ms: int) -> int:
        """Append a segment for each record, some of them of the same keys."""
        for number in range(count):
            key, value = b"k%d" % (number % 3), b"%d-%d" % (first_ms, number)
            wanted[key] = value
            end = client.append(topic, _batch((key, value), at=first_ms + 10 * number))
        return end

    end = write(7, first_ms=now - 3_600_000)
    wait_until_cleaned(broker, topic, end)
    assert _newest(client, topic) == wanted
    assert len(batches.records_of(client.fetch_all(topic))) <= 4

    set_configs(client, topic, cleanup_policy="delete", retention_ms="1000")
    eventually(lambda: client.start_offset(topic) == end + 1, what="compacted segments expired")
    wanted.clear()
    set_configs(client, topic, retention_ms="-1")
    eventually(lambda: _stays(client, topic), what="the longer retention")
    first = client.end_offset(topic)
    end = write(6, first_ms=now - 1_800_000)
    assert delete_records(client, topic, first + 2).low_watermark == first + 2
    eventually(lambda: min(folder(broker, topic).glob("*.log")).stem == f"{first + 2:020}", what="segments below gone")
    assert _newest(client, topic, first + 2) == wanted

    set_configs(client, topic, cleanup_policy="compact,delete")
    end = write(6, first_ms=now - 1_700_000)
    wait_until_cleaned(broker, topic, end)
    assert _newest(client, topic, first + 2) == wanted
    assert len(batches.records_of(client.fetch_all(topic, offset=first + 2))) <= 4
    set_configs(client, topic, retention_ms="1000")
    eventually(lambda: client.start_offset(topic) == end + 1, what="expired though compacted")
    wanted.clear()

    set_configs(client, topic, cleanup_policy="compact", retention_ms="1000")
    end = write(6, first_ms=now - 1_600_000)
    wait_until_cleaned(broker, topic, end)
    assert _newest(client, topic, client.start_offset(topic)) == wanted
    assert delete_records(client, topic, end).error_code == 44


def _stays(client: RawClient, topic: str) -> bool:
    """Append an old record and tell whether it is still there when retention has had time to look."""
    end = client.append(topic, _batch((b"probe", b""), at=START)) + 1
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        if client.start_offset(topic) == end:
            return False
        time.sleep(0.02)
    return True


def test_comp_07_switching_while_a_cleaning_runs(broker: BrokerProcess, client: RawClient, fresh) -> None:
    """Policies change again and again under the cleaner; whatever it was doing, the log stays readable."""
    topic = fresh()
    client.create_topic(topic, cleanup_policy="compact", segment_ms="1", retention_ms="-1")
    wanted: dict[bytes, bytes] = {}
    policies = ("delete", "compact,delete", "compact")
    for number in range(60):
        for part in range(5):
            key, value = b"k%d" % (number * 5 % 50 + part), random.Random(number).randbytes(5000)
            wanted[key] = value
            end = client.append(topic, _batch((key, value), at=START + (number * 5 + part) * 10))
        set_configs(client, topic, cleanup_policy=policies[number % 3])
        if number % 10 == 9:
            assert _newest(client, topic) == wanted
    end = client.append(topic, _batch((b"last", b""), at=START + 100_000))
    wait_until_cleaned(broker, topic, end)
    assert _newest(client, topic) == {**wanted, b"last": b""}
    assert len(batches.records_of(client.fetch_all(topic))) == len(wanted) + 1
