"""A log as a plain list of batches: what is stored, what a reader, a producer or a search by time must be told of it.

Everything is computed anew from the list, by the shortest way there is: no index, no memo, no incremental state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from config.views import LONG_MAX, LogConfig
from protocol.records.batch import BatchHeader, check_crc, iter_batches
from protocol.records.control import ControlType, control_type_of
from protocol.records.record import Record, iter_records


class Stored(NamedTuple):
    """One batch as the log holds it."""

    header: BatchHeader
    data: bytes
    records: tuple[Record, ...]

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def last(self) -> int:
        return self.header.last_offset


def stored_batches(data: bytes) -> list[Stored]:
    """Cut bytes into batches, each of which must be sound."""
    found = []
    for position, header in iter_batches(data):
        assert check_crc(data, position, header), header
        end = position + header.size_bytes
        found.append(Stored(header, data[position:end], tuple(iter_records(data, position, header))))
    assert sum(len(batch.data) for batch in found) == len(data), (found and found[-1].header, len(data))
    return found


@dataclass
class Producer:
    """What a replay knows of a producer."""

    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    txn_first: int = -1


class Transaction(NamedTuple):
    """A transaction that has ended; `marker` is the offset of what ended it."""

    producer_id: int
    first: int
    marker: int
    is_abort: bool


@dataclass
class Replayed:
    """The outcome of a replay."""

    producers: dict[int, Producer] = field(default_factory=dict)
    ended: list[Transaction] = field(default_factory=list)
    aborted_batches: set[int] = field(default_factory=set)  # base offsets


def replay(batches: Iterable[Stored]) -> Replayed:
    """Follow producers and transactions through batches, oldest first."""
    found = Replayed()
    pending: dict[int, list[int]] = {}
    for batch in batches:
        header = batch.header
        if header.producer_id < 0:
            continue
        known = found.producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            txn_first = known.txn_first if known is not None else -1
            known = found.producers[header.producer_id] = Producer(header.producer_epoch, txn_first=txn_first)
        if not header.is_control:
            known.last_offset = batch.last
            known.last_sequence = header.base_sequence + header.last_offset_delta
            if header.is_transactional:
                pending.setdefault(header.producer_id, []).append(batch.base)
                if known.txn_first < 0:
                    known.txn_first = batch.base
        elif batch.records:
            is_abort = control_type_of(batch.records[0].key) == ControlType.ABORT
            if known.txn_first >= 0:
                found.ended.append(Transaction(header.producer_id, known.txn_first, batch.base, is_abort))
            bases = pending.pop(header.producer_id, [])
            if is_abort:
                found.aborted_batches.update(bases)
            known.txn_first = -1
    return found


class Found(NamedTuple):
    """A segment as retention sees it."""

    base: int
    size: int
    timestamp: int  # of the newest record, else of the file


@dataclass
class Reader:
    """A consumer that follows its position."""

    is_committed: bool  # reads only what is decided
    position: int = 0
    seen: list[Stored] = field(default_factory=list)
    skipped: list[range] = field(default_factory=list)  # offsets that were deleted before it came to them

    def take(self, batch: Stored) -> None:
        """Read a batch: one behind all others, so none twice."""
        assert not self.seen or batch.base > self.seen[-1].last, batch.header
        self.seen.append(batch)
        self.position = batch.last + 1

    def begin_at(self, log_start: int) -> None:
        """Pass over what has been deleted."""
        if log_start > self.position:
            self.skipped.append(range(self.position, log_start))
            self.position = log_start

    def cut(self, offset: int) -> None:
        """Go back to where the log has been cut."""
        self.position = min(self.position, offset)
        self.seen = [batch for batch in self.seen if batch.last < offset]
        self.skipped = [range(one.start, min(one.stop, offset)) for one in self.skipped]

    def has_missed(self, batch: Stored) -> bool:
        """Tell whether it has passed a batch that was there without having read it."""
        is_skipped = any(batch.base in one for one in self.skipped)
        return batch.last < self.position and not is_skipped and batch.data not in {one.data for one in self.seen}


class LogModel:
    """The list, and the offsets that say what of it counts."""

    def __init__(self) -> None:
        self.appended: list[Stored] = []  # all that was accepted and not cut, as it was; what a replay is made from
        self.stored: list[Stored] = []  # what the log holds now, be it below the log start
        self.history: dict[int, set[bytes]] = {}  # every content that a batch at a base offset ever had
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.durable = 0  # a flush has returned that covers everything below
        # Of a scheduled log: what may have come due so far, and what was seen to have.
        self.releasable = 0
        self.released = 0
        self.readers: list[Reader] = []
        self.guard = LONG_MAX  # retention leaves what is at or above

    # --- changes ---

    def add(self, batches: Sequence[Stored]) -> None:
        for batch in batches:
            assert batch.base >= self.end, (batch.header, self.end)
            self.appended.append(batch)
            self.stored.append(batch)
            self.note(batch)
            self.end = batch.last + 1

    def note(self, batch: Stored) -> None:
        self.history.setdefault(batch.base, set()).add(batch.data)

    def cut(self, offset: int) -> None:
        """Let `offset` be the end."""
        if offset < self.end:
            self.appended = [batch for batch in self.appended if batch.last < offset]
            self.stored = [batch for batch in self.stored if batch.last < offset]
            self.end = offset
        self.start = min(self.start, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.durable = min(self.durable, offset)
        self.releasable, self.released = min(self.releasable, offset), min(self.released, offset)
        for reader in self.readers:
            reader.cut(offset)

    def restart_at(self, offset: int) -> None:
        """Forget everything."""
        self.appended, self.stored = [], []
        self.start = self.end = self.high_watermark = self.durable = offset
        self.releasable = self.released = offset
        for reader in self.readers:
            reader.cut(0)
            reader.position = offset

    def drop_below(self, base: int) -> None:
        """Note that segments below `base` are gone."""
        self.stored = [batch for batch in self.stored if batch.base >= base]

    # --- answers ---

    def visible(self) -> list[Stored]:
        """Return the batches with anything at or above the log start."""
        return [batch for batch in self.stored if batch.last >= self.start]

    def readable(self, offset: int, bound: int) -> list[Stored]:
        """Return the batches that a read from `offset` may give."""
        return [batch for batch in self.stored if batch.last >= offset and batch.last < bound]

    def last_stable(self, replayed: Replayed) -> range:
        """Return what the last stable offset may be: one value, but where the head of a transaction is gone."""
        undecided = [one.txn_first for one in replayed.producers.values() if one.txn_first >= 0]
        undecided += [txn.first for txn in replayed.ended if txn.marker >= self.high_watermark]
        least = max(min([self.high_watermark, *undecided]), self.start)
        most = min([self.high_watermark, *(first for first in undecided if first >= self.start)])
        return range(least, most + 1)

    def at_time(self, timestamp: int) -> Record | None:
        """Return the first record of that time or a later one, below the high watermark."""
        for batch in self.visible():
            for record in batch.records:
                if record.timestamp >= timestamp and record.offset >= self.start:
                    return record if record.offset < self.high_watermark else None
        return None

    def first_pending(self, offset: int, limit: int) -> int:
        """Return where the first batch from `offset` on begins whose time is later than `limit`, else the end."""
        for batch in self.stored:
            if batch.last >= offset and batch.header.max_timestamp > limit:
                return max(batch.base, offset)
        return self.end

    def next_batch(self, offset: int) -> int:
        """Return where the first batch from `offset` on begins: offsets that a gap leaves out belong to it."""
        return next((max(batch.base, offset) for batch in self.stored if batch.last >= offset), self.end)

    def newest(self, aborted_batches: set[int]) -> dict[bytes, tuple[int, bytes]]:
        """Return what a consumer of committed data ends with: key → (offset, value), deleted keys left out."""
        found: dict[bytes, tuple[int, bytes]] = {}
        for batch in self.stored:
            if batch.header.is_control or batch.base in aborted_batches:
                continue
            for record in batch.records:
                assert record.key is not None
                found.pop(record.key, None)
                if record.value is not None and record.offset >= self.start:
                    found[record.key] = (record.offset, record.value)
        return found

    def segment(self, base: int, end: int, size: int, mtime_ms: Callable[[], int]) -> Found:
        inside = [batch for batch in self.stored if base <= batch.base < end]
        assert sum(len(batch.data) for batch in inside) == size, (base, end, size)
        newest = max([batch.header.max_timestamp for batch in inside], default=-1)
        return Found(base, size, newest if newest >= 0 else mtime_ms())

    def first_kept(self, segments: list[Found], config: LogConfig, now_ms: int) -> int:
        """Return the base of the oldest segment that retention leaves; the log end when all of them go."""
        left = list(segments)
        while len(left) > 1 and left[1].base <= self.start and left[1].base <= self._removable_end:
            del left[0]
        if "delete" in config.cleanup_policy:
            total = sum(one.size for one in left)
            while config.retention_bytes >= 0 and self._may_go(left) and total - left[0].size >= config.retention_bytes:
                total -= left[0].size
                del left[0]
            while config.retention_ms >= 0 and self._may_go(left) and now_ms - left[0].timestamp > config.retention_ms:
                del left[0]
        return left[0].base if left else self.end

    @property
    def _removable_end(self) -> int:
        return min(self.high_watermark, self.guard)

    def _may_go(self, left: list[Found]) -> bool:
        if not left:
            return False
        following = left[1].base if len(left) > 1 else self.end
        return following <= self._removable_end and (len(left) > 1 or left[0].size > 0)
