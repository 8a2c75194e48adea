"""A compacted log against a list of what was appended: random keys, tombstones, codecs, transactions, passes and maps.

After every pass: each stored record is the one appended at its offset, batches are whole, in order and within the
ranges they had; for a consumer that reads committed data every key ends with the value it had, a tombstone is gone only
after its grace; nothing at or above the end of the round is lost; what a newer value of the round supersedes is gone.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from config.views import LogConfig
from protocol.records.batch import check_crc, iter_batches
from protocol.records.builder import build_batch
from protocol.records.record import Record, iter_records
from storage.compaction.offset_map import SLOT_BYTES
from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from tests.sim.cleaning import SMALL, clean
from tests.sim.logs import NOW, TP, append_marker, read_all

GRACE_MS = 1000
PRODUCERS = (1, 2)
CONFIG = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=150,
    segment_index_bytes=4096,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=GRACE_MS,
    message_timestamp_after_max_ms=(1 << 63) - 1,
)
APPEND_TIME = replace(CONFIG, message_timestamp_type="LogAppendTime")

KINDS = {
    "plain": 6,
    "idempotent": 2,
    "transactional": 5,
    "end": 4,
    "roll": 5,
    "time": 2,
    "clean": 4,
    "restart": 1,
}
STEPS = 60


def plan_of(chance: random.Random) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, which, how much) of random steps."""
    for _ in range(STEPS):
        (kind,) = chance.choices([*KINDS], [*KINDS.values()])
        yield kind, chance.randint(0, 4), chance.choice((2, 3, 5, 9, 12, 100))


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def now_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return 0


@dataclass
class Model:
    """Everything ever appended, and what became of transactions and passes."""

    records: dict[int, Record] = field(default_factory=dict)
    ranges: list[tuple[int, int]] = field(default_factory=list)  # (base, last offset) of all batches
    pending: dict[int, list[int]] = field(default_factory=lambda: {producer: [] for producer in PRODUCERS})
    aborted: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)
    checkpoint: int = 0
    may_go_from: dict[int, int] = field(default_factory=dict)  # offset of a tombstone → when its grace ends at earliest

    def add(self, batch: bytes) -> list[int]:
        """Take up a batch as it was stored; return the offsets of its records."""
        header = next(header for _, header in iter_batches(batch))
        self.ranges.append((header.base_offset, header.last_offset))
        added = {record.offset: record for record in iter_records(batch)}
        self.records.update(added)
        return list(added)

    def newest(self, below: int | None = None, from_offset: int = 0) -> dict[bytes, int]:
        """Return key → offset of its newest record that is not aborted."""
        found = {}
        for offset, record in self.records.items():
            if offset not in self.aborted and from_offset <= offset and (below is None or offset < below):
                found[record.key] = offset
        return found


class Driver:
    """Carries the steps out on a log and on the model."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        self.chance = chance
        self.fs = PosixFileSystem()
        self.clock = Clock()
        self.model = Model()
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> PartitionLog:
        return PartitionLog.open(
            self.fs,
            self.clock,
            SeededRng(1),
            str(self.root / "t-0"),
            TP,
            CONFIG,
            high_watermark=1 << 60,
            recovery_point=0,
            clean=clean,
        )

    def step(self, kind: str, which: int, amount: int) -> None:
        producer = PRODUCERS[which % len(PRODUCERS)]
        if kind == "plain":
            self.append(codec=which)
        elif kind == "idempotent":
            self.append(codec=which, producer_id=9)
        elif kind == "transactional":
            self.model.pending[producer] += self.append(producer_id=producer, is_transactional=True)
        elif kind == "end":
            self.end(producer, is_abort=amount < 9)
        elif kind == "roll":
            self.log.roll()
        elif kind == "time":
            self.clock.now += amount * GRACE_MS // 9
        elif kind == "clean":
            self.clean(slots=amount)
        else:
            self.restart(clean=which % 2 == 0)

    def append(self, **fields) -> list[int]:
        rows = [self.row() for _ in range(self.chance.randint(1, 6))]
        if "producer_id" in fields:
            producer = fields["producer_id"]
            fields |= {"producer_epoch": 0, "base_sequence": self.model.sequences.get(producer, 0)}
            self.model.sequences[producer] = fields["base_sequence"] + len(rows)
        self.log.config = APPEND_TIME if self.chance.random() < 0.2 else CONFIG
        base_offset = self.log.append(build_batch(rows, **fields), leader_epoch=0).base_offset
        self.log.config = CONFIG
        self.log.advance_high_watermark(self.log.log_end_offset)
        return self.model.add(self.stored_at(base_offset))

    def row(self) -> tuple[bytes, bytes | None, list[tuple[str, bytes]], int]:
        chance = self.chance
        value = None if chance.random() < 0.2 else chance.randbytes(chance.randint(0, 60))
        key = b"%d" % (chance.randint(0, 5) if chance.random() < 0.8 else chance.randint(6, 40))
        return key, value, [("h", chance.randbytes(3))], self.clock.now + chance.randint(-40, 40)

    def stored_at(self, offset: int) -> bytes:
        found = self.log.read(offset, max_bytes=1, bound=self.log.log_end_offset, min_one_batch=True)
        data = found.region.read()
        found.region.release()
        return data

    def end(self, producer: int, *, is_abort: bool) -> None:
        if not self.model.pending[producer]:
            return
        offset = append_marker(self.log, producer, is_abort=is_abort).base_offset
        self.model.ranges.append((offset, offset))
        if is_abort:
            self.model.aborted.update(self.model.pending[producer])
        self.model.pending[producer] = []

    def clean(self, slots: int) -> None:
        cleaner = SMALL._replace(dedupe_buffer_size=slots * SLOT_BYTES)
        start = self.model.checkpoint
        result = clean(self.log, self.fs, self.clock, start, cleaner)
        if result is None:
            return
        assert start < result.end_offset <= self.log.log_end_offset
        self.model.checkpoint = result.end_offset
        seen = {record.offset for record in self.check()}
        superseding = self.model.newest(result.end_offset, start)
        for offset, record in self.model.records.items():
            if offset >= result.end_offset and offset not in self.model.aborted:
                assert offset in seen or self.has_expired(offset), offset
            if offset < superseding.get(record.key, 0) and offset not in self.model.aborted:
                assert offset not in seen, offset
            if offset < result.groups[-1].sources[-1].base_offset and offset in self.model.aborted:
                assert offset not in seen, offset
            if record.value is None and offset in seen:
                self.model.may_go_from.setdefault(offset, self.clock.now + GRACE_MS)

    def has_expired(self, offset: int) -> bool:
        return self.model.may_go_from.get(offset, self.clock.now + 1) <= self.clock.now

    def check(self) -> list[Record]:
        """Compare everything stored with the model; return the data records."""
        model, log = self.model, self.log
        assert not any(segment.marker for segment in log._state.segments)
        data = read_all(log)
        last = -1
        found: list[Record] = []
        ranges = set(model.ranges)
        for position, header in iter_batches(data):
            assert check_crc(data, position, header)
            assert (header.base_offset, header.last_offset) in ranges
            assert header.base_offset > last
            last = header.last_offset
            batch = list(iter_records(data, position, header))
            assert len(batch) == header.record_count
            if not header.is_control:
                found += batch
                assert not batch or header.max_timestamp == max(record.timestamp for record in batch)
        for record in found:
            assert record == model.records[record.offset]
        stored = {record.offset for record in found}
        for offset in model.newest().values():
            if offset not in stored:
                assert model.records[offset].value is None, offset
                assert self.has_expired(offset), offset
        aborted = self.aborted_on_read(data)
        assert stored & model.aborted == aborted
        return found

    def aborted_on_read(self, data: bytes) -> set[int]:
        """Return the offsets that a consumer of committed data leaves out, as clients decide it."""
        log = self.log
        starts = sorted((first, producer) for producer, first in log.transactions.aborted(0, log.log_end_offset))
        active: set[int] = set()
        left_out: set[int] = set()
        for position, header in iter_batches(data):
            while starts and starts[0][0] <= header.last_offset:
                active.add(starts.pop(0)[1])
            if header.is_control:
                active.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in active:
                left_out.update(record.offset for record in iter_records(data, position, header))
        return left_out

    def restart(self, *, clean: bool) -> None:
        end, stable = self.log.log_end_offset, self.log.last_stable_offset
        producers = self.producers()
        if clean:
            self.log.close()
        else:
            self.log.flush()
            self.log.fail()
        self.log = self.open(clean=clean)
        assert (self.log.log_start_offset, self.log.log_end_offset) == (0, end)
        assert self.log.last_stable_offset == stable
        assert self.producers() == producers
        self.check()

    def producers(self) -> dict[int, tuple[int, int, int]]:
        """Return what each producer is known by; of transactional ones only where markers do not say it."""
        return {
            entry.producer_id: (entry.producer_epoch, entry.last_sequence, entry.last_offset)
            for entry in self.log.active_producers()
        }

    def finish(self) -> None:
        """Every offset leads to the batch that holds it or the next one, every time to its first record."""
        log = self.log
        left = self.check()
        for offset in range(log.log_end_offset):
            following = next((record.offset for record in left if record.offset >= offset), None)
            if following is None:
                break
            found = log.read(offset, max_bytes=1, bound=log.log_end_offset, min_one_batch=True)
            header = next(header for _, header in iter_batches(found.region.read()))
            found.region.release()
            assert header.last_offset >= offset and header.base_offset <= following
        for record in left:
            place = log.offset_for_timestamp(record.timestamp, bound=log.log_end_offset)
            assert place is not None and place.offset <= record.offset and place.timestamp >= record.timestamp
        log.close()


@settings(max_examples=100)
@given(st.integers(0, (1 << 32) - 1))
def test_whatever_is_cleaned_a_consumer_ends_with_the_newest_values(seed):
    chance = random.Random(seed)
    root = Path(tempfile.mkdtemp())
    try:
        driver = Driver(root, chance)
        for step in plan_of(chance):
            driver.step(*step)
        driver.finish()
    finally:
        shutil.rmtree(root)
