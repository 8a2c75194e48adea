"""Logs with transactions: written as a broker would have, and read as a read_committed consumer does."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer

from tests.harness import batches
from tests.harness.batches import Batch, Record
from tests.harness.raw import RawClient

ABORT, COMMIT = 0, 1


def marker(*, producer_id: int, is_commit: bool, offset: int, timestamp: int, producer_epoch: int = 0) -> bytes:
    """Write the control batch that ends a transaction."""
    key = struct.pack(">hh", 0, COMMIT if is_commit else ABORT)
    return batches.build(
        [Record(struct.pack(">hi", 0, 0), key, timestamp=timestamp)],
        attributes=batches.TRANSACTIONAL | batches.CONTROL,
        base_offset=offset,
        partition_leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


class TransactionalLog:
    """The segments of a partition to which transactions were appended; knows what each of them did."""

    def __init__(self, first_timestamp: int):
        self.segments: dict[int, bytes] = {}
        self.next_offset = 0
        # Every appended record of a committed transaction or of none, in offset order.
        self.committed: list[Record] = []
        # (producer id, first offset, offset of the marker)
        self.aborted: list[tuple[int, int, int]] = []
        self._timestamp = first_timestamp
        self._open: dict[int, list[Record]] = {}
        self._sequences: dict[int, int] = defaultdict(int)
        self._segment = 0

    def roll(self) -> None:
        """Let the next batch begin a segment."""
        self._segment = self.next_offset

    def write(self, producer_id: int, *pairs: tuple[bytes, bytes | None], codec: int = batches.NONE) -> None:
        """Append a batch of (key, value) records to the transaction of a producer, which begins by it."""
        records = [Record(value, key, timestamp=self._timestamp + delta) for delta, (key, value) in enumerate(pairs)]
        data = batches.build(
            records,
            codec=codec,
            attributes=batches.TRANSACTIONAL,
            base_offset=self.next_offset,
            partition_leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self._sequences[producer_id],
        )
        for delta, record in enumerate(records):
            record.offset = self.next_offset + delta
        self._sequences[producer_id] += len(records)
        self._open.setdefault(producer_id, []).extend(records)
        self._append(data, len(records))

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """Append the marker that ends the transaction of a producer."""
        records = self._open.pop(producer_id)
        if is_commit:
            self.committed = sorted([*self.committed, *records], key=lambda record: record.offset)
        else:
            self.aborted.append((producer_id, records[0].offset, self.next_offset))
        data = marker(producer_id=producer_id, is_commit=is_commit, offset=self.next_offset, timestamp=self._timestamp)
        self._append(data, 1)

    def _append(self, data: bytes, count: int) -> None:
        self.segments[self._segment] = self.segments.get(self._segment, b"") + data
        self.next_offset += count
        self._timestamp += count


def read_committed(client: RawClient, topic: str, offset: int = 0, *, partition: int = 0) -> list[Record]:
    """Fetch from an offset to the last stable one and leave out what was aborted."""
    found: list[Record] = []
    while True:
        result = client.fetch(topic, offset, partition, isolation=1)
        assert result.error_code == 0, result
        fetched = batches.parse(result.records)
        if not fetched:
            assert offset >= result.last_stable_offset, (offset, result.last_stable_offset)
            return found
        aborted = [(row.first_offset, row.producer_id) for row in result.aborted_transactions or ()]
        found += [record for record in _without_aborted(fetched, aborted) if record.offset >= offset]
        offset = fetched[-1].next_offset


def _without_aborted(fetched: list[Batch], aborted: list[tuple[int, int]]) -> list[Record]:
    pending, now_aborting, found = sorted(aborted), set(), []
    for batch in fetched:
        while pending and pending[0][0] <= batch.last_offset:
            now_aborting.add(pending.pop(0)[1])
        if batch.attributes & batches.CONTROL:
            if is_abort(batch):
                now_aborting.discard(batch.producer_id)
        elif not (batch.attributes & batches.TRANSACTIONAL and batch.producer_id in now_aborting):
            found += batch.records()
    return found


def is_abort(control: Batch) -> bool:
    """Tell whether a control batch is an abort marker; one that cleaning emptied is not."""
    return any(record.key == struct.pack(">hh", 0, ABORT) for record in control.records())


def write_transactions(bootstrap: str, topic: str, *, count: int, first_timestamp: int, producers: int = 3) -> None:
    """Let librdkafka write transactions, two open at a time, every third aborted, keys shared, codecs in turn."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    opened = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}-{number}",
                "compression.type": codecs[number % len(codecs)],
                "linger.ms": 0,
            }
        )
        for number in range(producers)
    ]
    for producer in opened:
        producer.init_transactions(30)
    pending: list[tuple[int, Producer]] = []
    for number in range(count):
        producer = opened[number % producers]
        producer.begin_transaction()
        for part in range(4):
            producer.produce(
                topic,
                key=b"key-%d" % ((number + part) % 6),
                value=None if (number + part) % 7 == 0 else b"%d-%d " % (number, part) + b"v" * 60,
                headers={"transaction": str(number)},
                timestamp=first_timestamp + number * 10 + part,
            )
            producer.flush(10)
        pending.append((number, producer))
        while len(pending) > (1 if number < count - 1 else 0):
            ended, owner = pending.pop(0)
            (owner.abort_transaction if ended % 3 == 1 else owner.commit_transaction)(30)


_ABORTED = struct.Struct(">hqqqq")


def aborted_entries(path: Path) -> list[tuple[int, int, int]]:
    """Read a .txnindex: producer id, first offset and offset of the abort marker of each entry."""
    data = path.read_bytes() if path.exists() else b""
    assert len(data) % _ABORTED.size == 0
    return [(row[1], row[2], row[3]) for row in _ABORTED.iter_unpack(data)]
