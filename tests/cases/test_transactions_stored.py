"""STOR-11 and COMP-05: transactions found in the log directory, with lost indexes and under the cleaner.

The log is written beforehand, so that a broker without a transaction coordinator can be asked too.
"""

import itertools
import struct
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import folder, replace_log, start, wait_until_cleaned
from tests.harness.raw import RawClient, eventually
from tests.harness.transactions import TransactionalLog, read_committed

PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "100",
}
START = int(time.time() * 1000) - 3_600_000
TWO_PRODUCERS = (70_001, 70_002)
# The keys of markers, which user records may have as well.
ABORT_KEY, COMMIT_KEY = bytes(4), struct.pack(">hh", 0, 1)


def _ten_transactions() -> TransactionalLog:
    """Two producers take turns to commit and abort; every transaction spans two segments."""
    log = TransactionalLog(START)
    numbers = itertools.count()
    for turn in range(10):
        producer_id, codec = TWO_PRODUCERS[turn % 2], turn % 5
        keys = (ABORT_KEY, COMMIT_KEY, b"k%d" % (turn % 4), b"own-%d" % turn)
        log.write(producer_id, *((key, b"%d" % next(numbers)) for key in keys), codec=codec)
        log.roll()
        log.write(producer_id, *((key, b"%d" % next(numbers)) for key in keys[1:3]), codec=codec)
        log.end(producer_id, is_commit=turn % 4 in (0, 3))
    return log


def _start_on(broker: BrokerProcess, topic: str, log: TransactionalLog, **configs: str) -> RawClient:
    with RawClient(address(broker)) as client:
        client.create_topic(topic, **configs)
    broker.kill()
    replace_log(broker, topic, log.segments)
    client = start(broker, topic)
    eventually(lambda: client.list_offset(topic, -1, isolation=1).offset == log.next_offset, what="all of it stable")
    return client


def _by_client(bootstrap: str, topic: str, isolation: str, end: int) -> list[tuple[int, bytes, bytes | None]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append((message.offset(), message.key(), message.value()))
    assert message is not None, "no end of partition"
    assert message.offset() == end
    consumer.close()
    return found


def _plain(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


@pytest.mark.parametrize("damaged_first", [0, 1, 2])
def test_stor_11_lost_transaction_indexes(broker: BrokerProcess, fresh, damaged_first: int) -> None:
    topic = fresh()
    log = _ten_transactions()
    with _start_on(broker, topic, log, retention_ms="-1") as client:
        assert read_committed(client, topic) == log.committed
    broker.kill()
    indexes = sorted(folder(broker, topic).glob("*.txnindex"))
    assert len([path for path in indexes if path.stat().st_size]) >= 3
    damages = (
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:10]),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
    )
    for number, path in enumerate(indexes):
        damages[(number + damaged_first) % 3](path)
    with start(broker, topic) as client:
        assert read_committed(client, topic) == log.committed
        assert _by_client(broker.bootstrap, topic, "read_committed", log.next_offset) == _plain(log.committed)
        for offset in range(log.next_offset):
            # One batch at a time, so that the ranges cannot come from a later one.
            found = client.fetch(topic, offset, isolation=1, partition_max_bytes=1)
            [batch] = batches.parse(found.records)
            listed = {(row.producer_id, row.first_offset) for row in found.aborted_transactions}
            overlapping = {
                (producer_id, first)
                for producer_id, first, last in log.aborted
                if last >= offset and first < batch.next_offset
            }
            assert overlapping <= listed <= {(producer_id, first) for producer_id, first, _ in log.aborted}
        assert client.list_offset(topic, -1, isolation=1).offset == log.next_offset
        assert client.end_offset(topic) == log.next_offset


def test_comp_05_cleaning_keeps_what_was_committed(broker: BrokerProcess, fresh, is_reference: bool) -> None:
    topic = fresh()
    log = _ten_transactions()
    wanted = {record.key: record.value for record in log.committed}
    configs = {"cleanup_policy": "compact", "delete_retention_ms": "0", "segment_ms": "1000"}
    # Nothing is cleaned before the log is as it should be.
    client = _start_on(broker, topic, log, **configs, min_cleanable_dirty_ratio="1.0")
    assert {record.key: record.value for record in read_committed(client, topic)} == wanted
    set_configs(client, topic, min_cleanable_dirty_ratio="0.01")
    for number in range(4):  # the first only rolls the segment that was active
        key, value = b"later", b"%d" % number
        batch = batches.build([Record(value, key, timestamp=START + 60_000 + number * 10_000)])
        end = client.append(topic, batch)
        wanted[key] = value
        wait_until_cleaned(broker, topic, end)
        found = read_committed(client, topic)
        assert {record.key: record.value for record in found} == wanted
        assert {record.offset for record in found} <= {record.offset for record in log.committed} | set(
            range(log.next_offset, end + 1)
        )
        _check_uncommitted(client, topic, wanted)
        assert client.list_offset(topic, -1, isolation=1).offset == client.end_offset(topic) == end + 1
    # One record is left for each key but "later", whose last value may be in the active segment.
    assert len(found) <= len(wanted) + 1
    client.close()
    broker.restart()
    with RawClient(address(broker)) as client:
        client.wait_for_topic(topic, 1)
        assert read_committed(client, topic) == found
        assert _by_client(broker.bootstrap, topic, "read_committed", end + 1) == _plain(found)
        assert client.list_offset(topic, -1, isolation=1).offset == end + 1


def _check_uncommitted(client: RawClient, topic: str, wanted: dict[bytes | None, bytes | None]) -> None:
    """Check that no committed value is missing and that no transaction has lost its marker before its records."""
    stored = batches.parse(client.fetch_all(topic))
    pairs = {
        (record.key, record.value)
        for batch in stored
        if not batch.attributes & batches.CONTROL
        for record in batch.records()
    }
    assert pairs >= wanted.items()
    markers = [batch for batch in stored if batch.attributes & batches.CONTROL and batch.count]
    for batch in stored:
        if batch.attributes & batches.TRANSACTIONAL and not batch.attributes & batches.CONTROL and batch.count:
            assert any(
                end.producer_id == batch.producer_id and end.base_offset > batch.base_offset for end in markers
            ), batch
