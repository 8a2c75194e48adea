"""COMP-01 to COMP-04: keyless records, what a cleaned log contains, tombstones, fetching where offsets are missing."""

import asyncio
import random
import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, TopicPartition

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.batches import Batch, Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import active_base, wait_until_cleaned
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values, produce_values

PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "100",
}
INVALID_RECORD = 87
# An hour ago; every batch that comes more than segment.ms after the first of its segment begins a new one.
START = int(time.time() * 1000) - 3_600_000
EACH_BATCH_ITS_SEGMENT = {"segment_ms": "1"}


def _batch(*pairs: tuple[bytes | None, bytes | None], at: int, **options: object) -> bytes:
    return batches.build([Record(value, key, timestamp=START + at) for key, value in pairs], **options)


def _records(client: RawClient, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in batches.records_of(client.fetch_all(topic))]


@pytest.mark.parametrize("codec", [batches.NONE, batches.LZ4], ids=["uncompressed", "lz4"])
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_comp_01_keyless_records_are_refused(client: RawClient, fresh, policy: str, codec: int) -> None:
    topic = fresh()
    client.create_topic(topic, cleanup_policy=policy)
    bad = _batch((b"a", b"1"), (None, b"2"), (b"c", b"3"), at=0, codec=codec)
    for version in client.offered("produce", *range(3, 13)):
        [entry] = client.request("produce", version, **produce_values(topic, {0: bad})).responses
        [result] = entry.partition_responses
        assert (result.error_code, result.base_offset) == (INVALID_RECORD, -1), version
        if version >= 8:
            assert [row.batch_index for row in result.record_errors] == [1], version
    assert client.end_offset(topic) == 0
    assert client.append(topic, _batch((b"", b"1"), (b"c", b"3"), at=0, codec=codec)) == 0


def test_comp_01_keyless_records_are_dropped_after_a_switch_to_compact(
    broker: BrokerProcess, client: RawClient, fresh
) -> None:
    topic = fresh()
    client.create_topic(topic, **EACH_BATCH_ITS_SEGMENT)
    client.append(topic, _batch((b"a", b"1"), (None, b"2"), (b"", b"3"), at=0))
    client.append(topic, _batch((None, b"4"), at=10, codec=batches.GZIP))
    client.append(topic, _batch((b"c", b"5"), at=20))
    set_configs(client, topic, cleanup_policy="compact")
    client.append(topic, _batch((b"active", b""), at=30))
    wait_until_cleaned(broker, topic, 5)
    assert _records(client, topic) == [(0, b"a", b"1"), (2, b"", b"3"), (4, b"c", b"5"), (5, b"active", b"")]


def _shuffled(seed: int) -> list[Record]:
    order = [number % 10 for number in range(1000)]
    random.Random(seed).shuffle(order)
    return [
        Record(b"value-%d" % number, b"key-%d" % key, ((b"n", b"%d" % number),), START + number, number)
        for number, key in enumerate(order)
    ]


def test_comp_02_a_cleaned_log_has_the_newest_value_of_each_key(
    broker: BrokerProcess, client: RawClient, fresh, is_reference: bool
) -> None:
    topic = fresh()
    client.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="4096", segment_ms="1800000")
    records = _shuffled(2)
    sent: dict[int, Batch] = {}
    for number, first in enumerate(range(0, len(records), 7)):
        batch = batches.build(records[first : first + 7], codec=number % 5)
        assert client.append(topic, batch) == first
        sent[first] = batches.parse(batch)[0]
    roll = Record(b"", b"roll", timestamp=START + 2_000_000, offset=len(records))
    client.append(topic, batches.build([roll]))
    active = active_base(broker, topic)
    assert active == len(records)
    wait_until_cleaned(broker, topic, active)

    newest = {record.key: record for record in records}
    wanted = [*sorted(newest.values(), key=lambda record: record.offset), roll]
    stored = client.fetch_all(topic)
    assert batches.records_of(stored) == wanted
    _check_batches(batches.parse(stored), sent)
    if not is_reference:  # it finds nothing once cleaning has left the first segment empty
        _check_times(client, topic, wanted)
    assert (client.start_offset(topic), client.end_offset(topic)) == (0, len(records) + 1)
    assert _by_confluent(broker.bootstrap, topic, 0) == [record.offset for record in wanted]

    broker.restart()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 1)
        assert later.fetch_all(topic) == stored
        assert later.end_offset(topic) == len(records) + 1
        if not is_reference:
            _check_times(later, topic, wanted)


def _check_batches(found: list[Batch], sent: dict[int, Batch]) -> None:
    ends = 0
    for batch in found:
        assert batch.crc_is_right
        assert batch.base_offset >= ends
        ends = batch.next_offset
        if batch.base_offset in sent:
            original = sent[batch.base_offset]
            assert batch.last_offset_delta == original.last_offset_delta
            assert batch.count == 0 or batch.codec == original.codec


def _check_times(client: RawClient, topic: str, records: list[Record]) -> None:
    """The records' times ascend, so that the first one at or after a time is the one it belongs to."""
    before = START
    for record in records:
        for timestamp in (before, record.timestamp):
            found = client.list_offset(topic, timestamp)
            assert (found.error_code, found.offset, found.timestamp) == (0, record.offset, record.timestamp)
        before = record.timestamp + 1
    assert client.list_offset(topic, before).offset == -1


def test_comp_03_tombstones_stay_until_their_horizon(broker: BrokerProcess, client: RawClient, fresh) -> None:
    soon, late = fresh("soon"), fresh("late")
    for topic, retention in ((soon, "5000"), (late, "3600000")):
        client.create_topic(topic, cleanup_policy="compact", delete_retention_ms=retention, **EACH_BATCH_ITS_SEGMENT)
        client.append(topic, _batch((b"k", b"old"), at=0))
        client.append(topic, _batch((b"k", None), at=10))
    begun = time.monotonic()

    def clean_once_more(number: int) -> None:
        """Append an unrelated key, which begins a segment, and wait until the one before it is cleaned."""
        ends = {topic: client.append(topic, _batch((b"u%d" % number, b""), at=20 + number * 10)) for topic in topics}
        for topic, end in ends.items():
            wait_until_cleaned(broker, topic, end)

    topics = [soon, late]
    for number in range(2):
        clean_once_more(number)
        seen = {topic: batches.records_of(client.fetch_all(topic)) for topic in topics}
        if time.monotonic() - begun < 4.5:  # else a slow machine may have let the horizon pass
            assert b"k" in [record.key for record in seen[soon]]
        for topic in topics:
            for record in seen[topic]:
                if record.key == b"k":
                    assert (record.offset, record.value, record.timestamp) == (1, None, START + 10)
    for batch in batches.parse(client.fetch_all(late)):
        if batch.base_offset == 1:
            assert batch.attributes & DELETE_HORIZON
            assert abs(batch.base_timestamp - (time.time() * 1000 + 3_600_000)) < 60_000

    numbers = iter(range(2, 1000))

    def tombstone_is_gone() -> bool:
        clean_once_more(next(numbers))
        return b"k" not in [record.key for record in batches.records_of(client.fetch_all(soon))]

    eventually(tombstone_is_gone, every_s=0.5, what="the tombstone dropped")
    assert time.monotonic() - begun > 5
    [kept] = [record for record in batches.records_of(client.fetch_all(late)) if record.key == b"k"]
    assert (kept.offset, kept.value, kept.timestamp) == (1, None, START + 10)


DELETE_HORIZON = 0x40
GAP_END = 22


def _with_gaps(broker: BrokerProcess, client: RawClient, topic: str) -> list[Batch]:
    """Write a log and have offsets cleaned away: within a batch, a whole batch, the last ones of a closed segment."""
    client.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="1600")
    for first in range(0, 12, 4):
        keys = range(first, first + 4)
        client.append(topic, _batch(*((b"k%02d" % key, b"1" * 100) for key in keys), at=first))
    gone = (1, 2, 4, 5, 6, 7, 10, 11)
    client.append(topic, _batch(*((b"k%02d" % key, b"2" * 30) for key in gone), at=12))
    client.append(topic, _batch((b"filler", b"f" * 800), at=13))
    client.append(topic, _batch((b"active", b"a" * 1200), at=14))
    active = active_base(broker, topic)
    assert active == GAP_END - 1
    wait_until_cleaned(broker, topic, active)
    stored = batches.parse(client.fetch_all(topic))
    offsets = [record.offset for batch in stored for record in batch.records()]
    assert offsets == [0, 3, 8, 9, *range(12, GAP_END)]
    return stored


def test_comp_04_fetch_goes_on_behind_removed_offsets(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    stored = _with_gaps(broker, client, topic)
    topic_id = client.topic(topic).topic_id
    for offset in range(GAP_END):
        wanted = next(batch.base_offset for batch in stored if batch.last_offset >= offset)
        for size in (1, 50_000_000):
            for version in client.offered("fetch", 4, client.highest("fetch")):
                found = client.fetch(topic, offset, version=version, partition_max_bytes=size)
                assert (found.error_code, batches.parse(found.records)[0].base_offset) == (0, wanted), offset
            row = fetch_row(0, offset, partition_max_bytes=size)
            version = client.highest("fetch")
            values = fetch_values(
                [{"topic_id": topic_id, "partitions": [row]}], version=version, session_id=0, session_epoch=0
            )
            answer = client.request("fetch", version, **values)
            assert answer.session_id != 0
            [[found]] = [entry.partitions for entry in answer.responses]
            assert (found.error_code, batches.parse(found.records)[0].base_offset) == (0, wanted), offset


async def test_comp_04_clients_advance_over_removed_offsets(broker: BrokerProcess, client: RawClient, fresh) -> None:
    topic = fresh()
    stored = _with_gaps(broker, client, topic)
    offsets = [record.offset for batch in stored for record in batch.records()]
    for begin in range(GAP_END):
        wanted = [offset for offset in offsets if offset >= begin]
        assert _by_confluent(broker.bootstrap, topic, begin, len(wanted)) == wanted
    python = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=10000)
    python.assign([TopicPartition(topic, 0)])
    for begin in range(GAP_END):
        wanted = [offset for offset in offsets if offset >= begin]
        python.seek(TopicPartition(topic, 0), begin)
        assert [record.offset for _, record in zip(wanted, python, strict=False)] == wanted
    python.close()
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as aio:
        aio.assign([AioTopicPartition(topic, 0)])
        for begin in range(GAP_END):
            wanted = [offset for offset in offsets if offset >= begin]
            aio.seek(AioTopicPartition(topic, 0), begin)
            assert [(await asyncio.wait_for(aio.getone(), 10)).offset for _ in wanted] == wanted


def _by_confluent(bootstrap: str, topic: str, begin: int, count: int | None = None) -> list[int]:
    """Read from an offset to the end, or that many records, and return their offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": count is None}
    consumer = ConfluentConsumer({**settings, "enable.auto.commit": False})
    consumer.assign([ConfluentTopicPartition(topic, 0, begin)])
    found: list[int] = []
    while count is None or len(found) < count:
        message = consumer.poll(10)
        assert message is not None, found
        if message.error() is not None:
            break
        found.append(message.offset())
    consumer.close()
    return found
