"""One segment: its batches go by once, and every check takes each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.offline.batches import BatchFile, StoredBatch
from broker.offline.verify.context import Content, LogContext
from broker.offline.verify.epochs import EpochsCheck
from broker.offline.verify.findings import Findings
from broker.offline.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from broker.offline.verify.producers import ProducersCheck
from broker.offline.verify.records import RecordsCheck
from protocol.records.batch import MAGIC_V2, BatchHeader
from protocol.records.control import EndTxnMarker
from storage.env.fs import FileSystem
from storage.segment.offset_index import MAX_RELATIVE_OFFSET


class Gap(NamedTuple):
    """Offsets that are missing before a batch, or between two segments."""

    kind: str
    path: str
    position: int
    expected: int
    found: int


class _Pending(NamedTuple):
    """A batch that is taken once the next one has shown that its offsets, which no CRC covers, can be true."""

    position: int
    header: BatchHeader
    marker: EndTxnMarker | None
    expected: int
    """The offset that was next when it came."""


class Walk:
    """What goes on from segment to segment of a log."""

    def __init__(
        self,
        fs: FileSystem,
        context: LogContext,
        findings: Findings,
        producers: ProducersCheck,
        epochs: EpochsCheck,
        advance: Callable[[int], None],
    ) -> None:
        self.fs = fs
        self.context = context
        self.findings = findings
        self.producers = producers
        self.epochs = epochs
        self.advance = advance
        self.next_offset = 0
        self.gaps: list[Gap] = []
        # Seen in a batch: records were removed from the log by compaction, so gaps are what one expects.
        self.was_compacted = context.may_have_gaps
        self.is_damaged = False
        self.batches = self.records = self.size_bytes = 0
        # What the metadata log says; filled for it only.
        self.messages: list[tuple[int, object]] = []
        self.keeps_messages = False


class SegmentWalk:
    """Walks one `.log`."""

    def __init__(
        self,
        walk: Walk,
        path: str,
        base_offset: int,
        offsets: OffsetIndexCheck | None,
        times: TimeIndexCheck | None,
    ) -> None:
        self._walk = walk
        self._path = path
        self._base_offset = base_offset
        self._offsets = offsets
        self._times = times
        self._records = RecordsCheck(path, walk.context.content, walk.findings)
        self._is_damaged = False
        self._pending: _Pending | None = None

    def run(self) -> None:
        """Read the segment. Raises: OSError."""
        walk = self._walk
        file = BatchFile(walk.fs, self._path)
        walk.size_bytes += file.size
        for batch in file:
            walk.advance(batch.header.size_bytes)
            walk.batches += 1
            if not self._take(batch):
                return  # recovery cuts the log here: what follows does not count
        self._flush()
        if file.end < file.size:
            self._judge_rest(file)
        if not self._is_damaged:
            if self._offsets is not None:
                self._offsets.finish(file.end)
            if self._times is not None:
                self._times.finish()

    def _take(self, batch: StoredBatch) -> bool:
        """Take a batch; False where recovery would cut the log."""
        walk, header = self._walk, batch.header
        if not batch.is_valid:
            self._flush()
            is_excused = self._is_excused() and walk.context.content is not Content.METADATA
            walk.findings.fault("batch-crc", self._path, "wrong CRC", batch.position, is_excused=is_excused)
            self._mark_damaged()
            if 0 <= header.last_offset - walk.next_offset <= MAX_RELATIVE_OFFSET:
                walk.next_offset = header.next_offset  # it may be wrong, but can be true
            return not is_excused
        expected = walk.next_offset
        if not self._has_possible_offsets(batch.position, header):
            return True
        if header.magic >= MAGIC_V2:
            expected = self._note_gap(batch.position, header)
        self._flush()
        count = self._records.check(batch)
        if count is None:
            self._mark_damaged()
        else:
            walk.records += count
        if walk.keeps_messages:
            walk.messages += self._records.messages
        self._pending = _Pending(batch.position, header, self._records.marker, expected)
        walk.next_offset = header.next_offset
        return True

    def _is_excused(self) -> bool:
        return self._walk.context.is_excused(self._walk.next_offset)

    def _has_possible_offsets(self, position: int, header: BatchHeader) -> bool:
        """Check where a batch stands; False when nothing more can be said of it."""
        walk, pending = self._walk, self._pending
        # A compressed legacy message is named by its last offset; where it begins is not told.
        first = header.base_offset if header.magic >= MAGIC_V2 else header.last_offset
        is_inside = header.base_offset <= header.last_offset <= self._base_offset + MAX_RELATIVE_OFFSET
        if is_inside and first >= walk.next_offset:
            return True
        if is_inside and pending is not None and pending.expected <= first:
            # This one fits what came before the last one: it is the last one that was out of place.
            what = f"offset {pending.header.base_offset} between {pending.expected} and {first}"
            self._fault_offsets(pending.position, what)
            walk.gaps = [gap for gap in walk.gaps if (gap.path, gap.position) != (self._path, pending.position)]
            self._pending = None
            walk.next_offset = first
            return True
        what = f"offsets {header.base_offset} to {header.last_offset} where {walk.next_offset} is next"
        self._fault_offsets(position, what)
        return False

    def _fault_offsets(self, position: int, what: str) -> None:
        self._walk.findings.fault("batch-offsets", self._path, what, position, is_excused=self._is_excused())
        self._mark_damaged()

    def _note_gap(self, position: int, header: BatchHeader) -> int:
        """Note what is missing before a batch; return the offset that was next."""
        walk = self._walk
        expected = walk.next_offset
        if header.record_count < header.last_offset_delta + 1:
            walk.was_compacted = True
        if header.base_offset > expected and not walk.is_damaged:
            walk.gaps.append(Gap("batch-offsets", self._path, position, expected, header.base_offset))
        return expected

    def _flush(self) -> None:
        """Have the checks take the batch that waits."""
        walk, pending = self._walk, self._pending
        self._pending = None
        if pending is None:
            return
        position, header, marker, _ = pending
        if not self._is_damaged:
            if self._offsets is not None:
                self._offsets.take(position, header)
            if self._times is not None:
                self._times.take(header)
        walk.producers.at(header.base_offset)
        walk.producers.take(self._path, position, header, marker)
        walk.epochs.take(self._path, position, header)

    def _mark_damaged(self) -> None:
        self._is_damaged = self._walk.is_damaged = True
        self._walk.producers.is_trusted = False

    def _judge_rest(self, file: BatchFile) -> None:
        walk = self._walk
        rest = file.size - file.end
        walk.advance(rest)
        if file.is_zero_from_end(walk.fs):
            # A preallocated segment that is still written to, or the cut of one that was not durable.
            is_excused = not walk.context.is_clean
            what = f"{rest} bytes of zeros follow the last batch"
            walk.findings.fault("unused-space", self._path, what, file.end, is_excused=is_excused)
            return
        kind = "batch-torn" if file.is_torn else "batch-structure"
        what = f"{file.damage}; {rest} bytes cannot be read"
        is_excused = self._is_excused()
        walk.findings.fault(kind, self._path, what, file.end, is_excused=is_excused)
        self._mark_damaged()
