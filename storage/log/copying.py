"""LogCopy: brings what a log has into another log, its copy in another directory, while the log serves.

Like a FlushPlan, a step is planned on the side that owns the log, run in any thread and noted on the owner's side. The
copy belongs to the thread while a step runs; of the log itself the step holds no more than a pinned region. Batches
keep their offsets and their bytes; the copy makes its own segments, indexes, epochs and producer state from them.

The log acts as the leader of its copy. The first step cuts the copy to what both have in common: where two logs have
the same offset in the same leader epoch they are equal up to there (KIP-101), and an equal end alone proves nothing.
Whatever is cut off the log later is cut off the copy first. Source: Kafka's ReplicaAlterLogDirsThread.

After a stop that was not clean, what no flush had covered goes too: a power failure may have taken batches from the
middle of it, which the epochs do not tell and which the log still has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.records.batch import PREFIX_SIZE, parse_prefix
from protocol.records.errors import CorruptBatch
from storage.errors import CorruptRecord, InvalidRecord, StorageFailure
from storage.log.append import LogAppender
from storage.log.direct_writes import written_end
from storage.log.flush import has_unflushed
from storage.log.guard import guarded
from storage.log.reader import locate
from storage.log.removal import detach_below_start, note_removed
from storage.log.state import LogState, nothing_cut
from storage.segment.region import Region
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog

BATCHES_PER_PIECE = 128
"""So many batches are appended at a time, some 200 µs of the interpreter; others may run in between."""
FLUSH_EVERY_BYTES = 8 * 1024 * 1024
"""The copy is flushed whenever so much was appended: the kernel never owes more, and a restart has less to check."""


def common_end(log: LogState, copy: LogState) -> int:
    """Return the offset up to which a copy holds what the log holds, as their leader epochs tell.

    Epochs that the log does not know are passed over, the newest first. Without a common one nothing is known of what
    lies below the first, but that the high watermark of a copy never was above what it had copied.
    """
    end = copy.offsets.log_end_offset
    for epoch, start in reversed(copy.epochs.entries()):
        if start >= end:
            continue
        known, known_end = log.epochs.end_offset_for(epoch, log.offsets.log_end_offset)
        if known == epoch:
            return min(end, known_end)
        end = start
    return min(end, copy.offsets.high_watermark, log.offsets.log_end_offset)


class Cursor(NamedTuple):
    """Where in the log the batch begins that the copy needs next."""

    segment: Segment
    position: int
    offset: int


class CopyStep:
    """One step: cut the copy, append what a region holds, follow the ends. `turn` until it says that it is done."""

    __slots__ = (
        "_at",
        "_copy",
        "_cut_to",
        "_data",
        "_region",
        "_starts_anew",
        "copied_bytes",
        "cursor",
        "end_offset",
        "high_watermark",
        "is_flushed",
        "is_short",
        "log_start_offset",
        "needed_bytes",
        "path",
    )

    def __init__(self, copy: LogCopy, *, cut_to: int | None, starts_anew: bool) -> None:
        self._copy = copy
        self._cut_to = cut_to
        self._starts_anew = starts_anew
        self._region: Region | None = None
        self.path = ""  # of the file of the region, when the step was planned
        self._data: memoryview | None = None  # what the region holds, once it was read
        self._at = 0  # how much of it was appended
        # Set by the plan.
        self.cursor: Cursor | None = None
        self.end_offset: int | None = None  # where the log ends, when there is nothing more to be appended below it
        self.high_watermark = 0
        self.log_start_offset = 0
        self.is_flushed = False
        # Set by the run.
        self.copied_bytes = 0
        self.is_short = False  # the file ended within the region
        self.needed_bytes = 0  # of a batch that is larger than the region

    def take(self, region: Region, cursor: Cursor) -> None:
        """Let the step append what a region holds."""
        self._region, self.cursor, self.path = region, cursor, cursor.segment.log.path

    def turn(self) -> bool:
        """Do the next piece; tell whether there is another one. Blocking: disk, cpu; any thread.

        Raises: StorageFailure, whose path tells which of both directories has failed; CorruptRecord.
        """
        if self._data is None:
            self._data = memoryview(self._begin())
        if self._append():
            return True
        self._finish()
        return False

    def _begin(self) -> bytes:
        target = self._copy.target
        if self._starts_anew:
            target.truncate_fully_and_start_at(self.log_start_offset)
        elif self._cut_to is not None:
            target.truncate_to(self._cut_to)
        if self._region is None:
            return b""
        try:
            data = self._region.read()
        except OSError as error:
            raise StorageFailure(f"cannot read {self.path}: {error}", self.path) from error
        self.is_short = len(data) < len(self._region)
        return data

    def _append(self) -> bool:
        """Append a few batches; tell whether more may follow."""
        assert self._data is not None
        rest = self._data[self._at :]
        if len(rest) < PREFIX_SIZE:
            return False
        try:
            taken = self._copy.append(rest)
        except (CorruptRecord, CorruptBatch, InvalidRecord) as error:
            raise CorruptRecord(f"cannot copy {self.path}: {error}") from error
        if not taken and not self._at:
            self.needed_bytes = parse_prefix(rest).size_bytes
        self._at += taken
        self.copied_bytes += taken
        return taken > 0

    def _finish(self) -> None:
        copy, target = self._copy, self._copy.target
        if self.end_offset is not None:
            copy.advance_end(self.end_offset)
        target.advance_high_watermark(self.high_watermark)
        target.increment_log_start_offset(min(self.log_start_offset, target.high_watermark))
        copy.remove_below_start()
        if self.is_flushed or copy.unflushed_bytes >= FLUSH_EVERY_BYTES:
            target.flush()
            copy.unflushed_bytes = 0

    def release(self) -> None:
        """Give the region back, on the owner's side. Idempotent."""
        region, self._region = self._region, None
        if region is not None:
            region.release()


class LogCopy:
    """The copying of one log. Everything but what a step does happens on the owner's side, between steps."""

    __slots__ = (
        "_appender",
        "_cursor",
        "_cut_to",
        "_is_aligned",
        "_least_bytes",
        "_log",
        "_state",
        "copied_bytes",
        "target",
        "unflushed_bytes",
    )

    def __init__(self, log: LogState, target: PartitionLog, state: LogState) -> None:
        self._log = log
        self.target = target
        self._state = state  # of the target
        self._appender = LogAppender(state)
        self._is_aligned = False  # the copy is known to hold nothing but what the log holds
        self._cut_to: int | None = None  # the lowest offset that the log was cut to since the last step
        self._cursor: Cursor | None = None
        self._least_bytes = 0  # of the next read: the size of the batch it begins with, where that is known
        self.copied_bytes = 0
        self.unflushed_bytes = 0  # written by the steps
        log.on_cut = self._note_cut

    def close(self) -> None:
        """Follow the log no longer."""
        self._log.on_cut = nothing_cut

    def _note_cut(self, offset: int) -> None:
        self._cut_to = offset if self._cut_to is None else min(self._cut_to, offset)

    # --- how far it is ---

    @property
    def is_caught_up(self) -> bool:
        """Tell whether the copy holds exactly what the log holds, all of which is in its files."""
        end_offset = self._log.offsets.log_end_offset
        return (
            self._is_aligned
            and self._cut_to is None
            and self._state.offsets.log_end_offset == end_offset == written_end(self._log)
        )

    @property
    def is_complete(self) -> bool:
        """Tell whether the copy is caught up, durable, and begins where the log does: it could be the log."""
        state = self._state
        return (
            self.is_caught_up
            and not has_unflushed(state)
            and state.offsets.log_start_offset == self._log.offsets.log_start_offset
        )

    def is_nearly_caught_up(self, max_bytes: int) -> bool:
        """Tell whether so little is left that appends may be held while it is copied."""
        return self.is_caught_up or (self._is_aligned and self._cut_to is None and self.left_bytes <= max_bytes)

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind."""
        return max(self._log.offsets.log_end_offset - self._state.offsets.log_end_offset, 0)

    @property
    def left_bytes(self) -> int:
        """How many bytes are still to be copied."""
        segments, cursor = self._log.segments, self._cursor
        if cursor is None or segments.floor(cursor.segment.base_offset) is not cursor.segment:
            return max(segments.size_bytes() - self._state.segments.size_bytes(), 0)
        return sum(one.log.size for one in segments.starting_with(cursor.segment.base_offset)) - cursor.position

    # --- plan and note ---

    def plan(self, max_bytes: int, *, is_flushed: bool = False) -> CopyStep:
        """Return the next step: up to max_bytes, but one batch at least. With is_flushed all is durable after it.

        Raises: LogClosed; StorageFailure and CorruptRecord, of the log. Blocking: the first time index pages.
        """
        log, state = self._log, self._state
        log.ensure_open()
        state.ensure_open()
        state.config = log.config
        cut_to = self._take_cut()
        end = state.offsets.log_end_offset if cut_to is None else min(cut_to, state.offsets.log_end_offset)
        starts_anew = end < log.offsets.log_start_offset
        step = CopyStep(self, cut_to=cut_to, starts_anew=starts_anew)
        step.high_watermark, step.log_start_offset = log.offsets.high_watermark, log.offsets.log_start_offset
        step.is_flushed = is_flushed
        if not starts_anew and end == state.offsets.log_end_offset:
            guarded(log, "plan a copy of", lambda: self._plan_append(step, end, max_bytes))
        return step

    def _take_cut(self) -> int | None:
        """Return where the copy is to be cut, None when nothing of it is known to be wrong."""
        cut_to, self._cut_to = self._cut_to, None
        if not self._is_aligned:
            self._is_aligned = True
            common = common_end(self._log, self._state)
            if self._state.unproven_from is not None:
                common = min(common, self._state.unproven_from)
            cut_to = common if cut_to is None else min(cut_to, common)
        return cut_to

    def _plan_append(self, step: CopyStep, offset: int, max_bytes: int) -> None:
        cursor = self._find(offset)
        if cursor is None:
            if written_end(self._log) == self._log.offsets.log_end_offset:
                step.end_offset = self._log.offsets.log_end_offset
            return
        file = cursor.segment.log
        end = min(cursor.position + max(max_bytes, self._least_bytes, PREFIX_SIZE), file.written_bytes)
        step.take(file.region(cursor.position, end), cursor)

    def _find(self, offset: int) -> Cursor | None:
        """Return where to read on; None when everything that is in the files was copied."""
        segments, cursor = self._log.segments, self._cursor
        if (
            cursor is None
            or cursor.offset != offset
            or cursor.position > cursor.segment.log.size
            or segments.floor(cursor.segment.base_offset) is not cursor.segment
        ):
            found = locate(self._log, offset)
            cursor = None if found is None else Cursor(*found, offset)
        while cursor is not None and cursor.position >= cursor.segment.log.written_bytes:
            following = segments.after(cursor.segment)
            cursor = None if following is None else Cursor(following, 0, offset)
        return cursor

    def note(self, step: CopyStep) -> None:
        """Take note of a step that ran well. Raises: CorruptRecord when the log's file has lost its end."""
        step.release()
        if step.is_short and self._cut_to is None:
            self._cursor = None
            raise CorruptRecord(f"{step.path} is shorter than its batches")
        self._state.unproven_from = None  # cut with the first step
        self.copied_bytes += step.copied_bytes
        self._least_bytes = step.needed_bytes
        cursor = step.cursor
        self._cursor = cursor and Cursor(
            cursor.segment, cursor.position + step.copied_bytes, self._state.offsets.log_end_offset
        )

    def failed(self, step: CopyStep) -> None:
        """Give back a step whose run failed; nothing is taken for granted when another one is planned."""
        step.release()
        self._cursor = None
        self._is_aligned = False

    # --- what a step does to the copy ---

    def append(self, data: memoryview) -> int:
        """Append the first few whole batches; return how many bytes they have. Raises: storage.errors."""
        state = self._state
        first = parse_prefix(data)
        if first.size_bytes > len(data):
            return 0
        if first.base_offset < state.offsets.log_end_offset and first.magic > 1:
            self.target.truncate_to(first.base_offset)  # the log starts, or was cut, within this batch
        taken = self._appender.append_whole_batches(data, max_batches=BATCHES_PER_PIECE).size
        self.unflushed_bytes += taken
        return taken

    def advance_end(self, offset: int) -> None:
        """Let the copy end where the log does: a log may end with offsets that have no batch."""
        self._state.offsets.advance_end(max(offset, self._state.offsets.log_end_offset))

    def remove_below_start(self) -> None:
        """Remove the segments that lie wholly below the log start."""
        removal = detach_below_start(self._state)
        if removal is not None:
            removal.rename()
            note_removed(self._state, removal)
