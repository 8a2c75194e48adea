"""PartitionLog: the façade of one partition's log. It owns the parts and delegates everything to them.

Not shared between threads; the only piece that may run elsewhere is a FlushPlan. I/O errors leave as StorageFailure.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Callable, Iterator
from typing import TypeVar

from config.views import CleanerConfig, LogConfig
from protocol.records.batch import LOG_OVERHEAD
from protocol.records.errors import CorruptBatch, InvalidBatch
from storage.checkpoints.partition_metadata import read_partition_metadata, write_partition_metadata
from storage.compaction.plan import Dirtiness, dirtiness, task_for
from storage.compaction.swap import Swap, install, remove_cleaned
from storage.compaction.task import CleanedGroup, CleaningResult, CleaningTask
from storage.env.clock import Clock, Rng
from storage.env.fs import Buffer, FileSystem
from storage.errors import (
    CorruptCheckpoint,
    CorruptIndex,
    CorruptRecord,
    InconsistentTopicId,
    LogClosed,
    OffsetOutOfRange,
    StorageFailure,
)
from storage.log.append import AppendResult, LogAppender, roll
from storage.log.deletions import Deletions
from storage.log.direct_writes import LogWrite, note_written, plan_write, unwritten_bytes, write_now, written_end
from storage.log.flush import (
    FlushPlan,
    flush_now,
    is_flush_due,
    ms_until_flush,
    note_flush_failed,
    note_flushed,
    plan_flush,
)
from storage.log.loader import LoadParameters, load
from storage.log.page_budget import PageCacheBudget
from storage.log.reader import FetchSlice, LogReader
from storage.log.removal import Removal, note_removed, retain
from storage.log.state import LogState
from storage.log.time_search import TimeSearch, TimestampOffset, plan_first, plan_largest
from storage.log.truncation import advance_log_start, truncate_fully, truncate_to
from storage.log.validator import LATEST_REQUEST_VERSION, ValidatedBatch
from storage.log.writeback import WritebackPlan, note_written_back, plan_writeback
from storage.producers.entry import ProducerEntry
from storage.producers.snapshot import take_snapshot
from storage.producers.state import DEFAULT_EXPIRATION_MS, ProducerStateManager
from storage.segment.names import PARTITION_METADATA
from storage.segment.open_files import OpenFiles
from storage.stats import LoadProgress, StorageStats
from storage.types import AppendOrigin, TopicPartition

logger = logging.getLogger(__name__)

_RAFT = AppendOrigin.RAFT
_REPLICATION = AppendOrigin.REPLICATION
_T = TypeVar("_T")


class PartitionLog:
    """Append, read, look up, truncate, flush and close one log."""

    __slots__ = ("_appender", "_is_closed", "_offsets", "_reader", "_state", "_write_queue", "tp")

    def __init__(self, state: LogState) -> None:
        self.tp = state.tp
        self._state = state
        self._offsets = state.offsets
        self._write_queue = state.write_queue
        self._appender = LogAppender(state)
        self._reader = LogReader(state)
        self._is_closed = False  # set once by close, delete or fail

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        clock: Clock,
        rng: Rng,
        path: str,
        tp: TopicPartition,
        config: LogConfig,
        *,
        topic_id: bytes | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        clean: bool = False,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        stats: StorageStats | None = None,
        deletions: Deletions | None = None,
        page_cache: PageCacheBudget | None = None,
        open_files: OpenFiles | None = None,
        progress: LoadProgress | None = None,
    ) -> PartitionLog:
        """Load the log in directory `path`, creating it when there is none.

        `deletions` is where files of removed segments wait to be unlinked, `page_cache` the budget that synced pages
        are counted in; by default the log has both for itself. `open_files` bounds what all logs together hold open.
        `progress` is told how far loading has come; whoever gives one adds it to the stats.

        Raises: StorageFailure, CorruptRecord, InconsistentTopicId. Blocking: disk, cpu; recovery reads whole segments.
        """
        producers = ProducerStateManager(tp, expiration_ms=producer_id_expiration_ms)
        state = LogState(
            fs,
            clock,
            rng,
            path,
            tp,
            config,
            stats or StorageStats(),
            producers,
            Deletions() if deletions is None else deletions,
            PageCacheBudget() if page_cache is None else page_cache,
        )
        parameters = LoadParameters(recovery_point, log_start_offset, high_watermark, clean)
        own_progress = LoadProgress()
        try:
            load(state, parameters, progress or own_progress)
            state.topic_id = _settle_topic_id(state, topic_id)
        except OSError as error:
            raise StorageFailure(f"cannot load {path}: {error}", path) from error
        state.stats.add_loading(own_progress)
        if open_files is not None:
            state.count_files(open_files)
        return cls(state)

    # --- what it is ---

    @property
    def topic_id(self) -> bytes | None:
        """Id of the topic's incarnation, None for logs of brokers that had none."""
        return self._state.topic_id

    @property
    def path(self) -> str:
        """Directory of the log."""
        return self._state.path

    @property
    def config(self) -> LogConfig:
        """Settings in force; assigning replaces them from the next append on."""
        return self._state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        if config != self._state.config:
            self._state.config = config

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        return self._offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self._offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Exclusive bound of what is replicated."""
        return self._offsets.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Exclusive bound of what is decided."""
        return self._offsets.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk."""
        return self._offsets.recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all `.log` files."""
        return self._state.segments.size_bytes()

    @property
    def segment_count(self) -> int:
        """Segments, the active one included."""
        return len(self._state.segments)

    @property
    def first_segment_base_offset(self) -> int:
        """Base offset of the oldest segment that a restart may find."""
        state = self._state
        return min([state.segments.first().base_offset, *state.unfinished_removals])

    @property
    def log_start_to_checkpoint(self) -> int | None:
        """The log start where a restart would not find it in the segment names. Any thread."""
        start = self._offsets.log_start_offset
        return start if start > self.first_segment_base_offset else None

    @property
    def latest_epoch(self) -> int:
        """Newest leader epoch known, -1 for none."""
        return self._state.epochs.latest_epoch

    @property
    def is_closed(self) -> bool:
        """Tell whether the log was closed, deleted or given up."""
        return self._is_closed

    @property
    def has_unflushed_data(self) -> bool:
        """Tell whether a flush would have something to do."""
        return self._offsets.recovery_point < self._offsets.log_end_offset or self._state.has_new_names

    @property
    def last_flush_ms(self) -> int:
        """Wall-clock time of the last flush, or of opening."""
        return self._state.last_flush_ms

    # --- append and read ---

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        request_version: int = LATEST_REQUEST_VERSION,
        validated: ValidatedBatch | None = None,
    ) -> AppendResult:
        """Append what one writer sent, wholly or not at all; a writable buffer is stamped in place.

        `validated` is what `validate` said of these records when it was run elsewhere, beforehand.

        Raises: storage.errors; the log is then unchanged. Blocking: cpu, page cache; a roll creates files.
        """
        if self._is_closed:
            raise LogClosed(str(self.tp))
        if origin is _REPLICATION or (origin is _RAFT and _first_batch_size(records) != len(records)):
            return self._appender.append_set(records, leader_epoch=leader_epoch, origin=origin)
        return self._appender.append(
            records, leader_epoch=leader_epoch, origin=origin, request_version=request_version, validated=validated
        )

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark forward, at most to the log end; tell whether it moved."""
        offsets = self._offsets
        if self._write_queue.files:
            offset = min(offset, self._write_queue.written_end_offset)
        producers = self._state.producers
        if not producers.has_undecided:
            return offsets.advance_stable_high_watermark(offset)
        if not offsets.advance_high_watermark(offset):
            return False
        producers.on_high_watermark(offsets.high_watermark)
        offsets.set_last_stable(producers.first_unstable_offset)
        return True

    def read(self, start_offset: int, *, max_bytes: int, bound: int, min_one_batch: bool) -> FetchSlice:
        """Locate whole batches from start_offset below `bound`; see LogReader.read. Whoever takes it releases it."""
        if self._is_closed:
            raise LogClosed(str(self.tp))
        try:
            return self._reader.read(start_offset, max_bytes=max_bytes, bound=bound, min_one_batch=min_one_batch)
        except OSError as error:
            raise StorageFailure(f"cannot read {self.path}: {error}", self.path) from error
        except (CorruptBatch, CorruptIndex) as error:
            raise CorruptRecord(f"cannot read {self.path}: {error}") from error

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that touch [start_offset, upper_bound)."""
        return self._guarded(lambda: self._reader.aborted_transactions(start_offset, upper_bound))

    def offset_for_timestamp(self, timestamp: int, *, bound: int) -> TimestampOffset | None:
        """Return the first record at or after a time, below `bound`, here and now. Blocking: disk, cpu."""
        search = self.time_search(timestamp, bound=bound)
        return search.run() if search is not None else None

    def offset_of_max_timestamp(self, bound: int) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, below `bound`, here and now. Blocking: disk, cpu."""
        search = self.largest_timestamp_search(bound)
        return search.run() if search is not None else None

    def time_search(self, timestamp: int, *, bound: int) -> TimeSearch | None:
        """Plan offset_for_timestamp for another thread; None when there is surely nothing. Raises: LogClosed."""
        self._ensure_open()
        return plan_first(self._state, timestamp, bound)

    def largest_timestamp_search(self, bound: int) -> TimeSearch | None:
        """Plan offset_of_max_timestamp for another thread; None when there is surely nothing. Raises: LogClosed."""
        self._ensure_open()
        return plan_largest(self._state, bound)

    def holds(self, search: TimeSearch) -> bool:
        """Tell whether what a search came to counts: the log was not closed, cut or cleaned under it."""
        return not self._is_closed and search.still_holds(self._state)

    # --- leader epochs ---

    def assign_epoch(self, epoch: int) -> None:
        """Note that a leader epoch begins at the log end; the file follows with its first batch."""
        self._state.epochs.assign(epoch, self._offsets.log_end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 when unknown."""
        return self._state.epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch found, end offset) for OffsetForLeaderEpoch and fetch divergence."""
        return self._state.epochs.end_offset_for(epoch, self._offsets.log_end_offset)

    def epoch_entries(self) -> list[tuple[int, int]]:
        """Return all (epoch, start offset) pairs."""
        return self._state.epochs.entries()

    # --- producers ---

    def active_producers(self) -> Iterator[ProducerEntry]:
        """Iterate the producers known here, for DescribeProducers."""
        return iter(list(self._state.producers.producers.values()))

    def set_producer_id_expiration_ms(self, expiration_ms: int) -> None:
        """Replace the idle time after which producers are forgotten."""
        self._state.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were idle too long; return how many."""
        return self._state.producers.remove_expired(now_ms)

    # --- moving the ends ---

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start forward; tell whether it moved. Raises: OffsetOutOfRange above the high watermark."""
        if offset > self._offsets.high_watermark:
            raise OffsetOutOfRange(offset, self._offsets.log_start_offset, self._offsets.high_watermark)
        return advance_log_start(self._state, offset)

    def retain(self, now_ms: int) -> Removal | None:
        """Let the oldest segments go that have no reason to stay; None when all have one, or the log is closed.

        A removal may not be all: whoever gets one renames its files (in any thread), calls `removed`, and asks again.
        Raises: StorageFailure, CorruptRecord. Blocking: ends of index files; a roll when everything goes.
        """
        if self._is_closed:
            return None
        return self._guarded(lambda: retain(self._state, now_ms))

    @property
    def deletions(self) -> Deletions:
        """Where files of removed segments wait to be unlinked."""
        return self._state.deletions

    def removed(self, removal: Removal) -> None:
        """Note that the renames of a removal are done; its files are unlinked after file.delete.delay.ms."""
        note_removed(self._state, removal)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log back to `offset`; tell whether batches were removed. Blocking: disk."""
        self._reader.forget_positions()
        return self._guarded(lambda: truncate_to(self._state, offset))

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything and begin at `offset`. Blocking: disk."""
        self._reader.forget_positions()
        self._guarded(lambda: truncate_fully(self._state, offset, log_start_offset))

    def roll(self) -> None:
        """Seal the active segment and start a new one at the log end; nothing happens to an empty one."""
        if self._state.segments.active.log.size:
            self._guarded(lambda: roll(self._state, self._offsets.log_end_offset))

    # --- compaction ---

    def dirtiness(self, checkpoint: int | None, now_ms: int) -> Dirtiness:
        """Measure what a cleaning would find, given the offset up to which the log is clean; see plan.dirtiness."""
        return self._guarded(lambda: dirtiness(self._state, checkpoint, now_ms))

    def cleaning_task(self, one: Dirtiness, *, now_ms: int, cleaner: CleanerConfig) -> CleaningTask | None:
        """Write down what a cleaning needs to know, None when there is nothing to clean."""
        return None if self._is_closed else task_for(self._state, one, now_ms=now_ms, cleaner=cleaner)

    def begin_swap(self, group: CleanedGroup, cut_count: int) -> Swap | None:
        """Begin to install a cleaned group, None when its sources are no longer in the log; the steps are in Swap.

        `cut_count` is that of the task. Without a swap the caller removes the files of the group (remove_cleaned).
        """
        swap = Swap(self._state, group, cut_count)
        return swap if not self._is_closed and swap.is_valid() else None

    def remove_cleaned(self) -> None:
        """Remove what a pass that was cancelled, failed or came too late has written. Blocking: disk; any thread."""
        self._guarded(lambda: remove_cleaned(self._state.fs, self._state.path))

    def install_cleaned(self, result: CleaningResult) -> bool:
        """Install every group of a finished pass here and now; tell whether all of them still fitted.

        Raises: StorageFailure. Blocking: disk.
        """
        if self._is_closed:
            return False
        return all([install(self._state, group, result.cut_count) for group in result.groups])

    # --- writes beside the owner (preallocated logs) ---

    def defer_writes(self) -> None:
        """From now on appends past the page cache wait in memory, above the high watermark, for the owner's plans."""
        self._write_queue.is_deferred = True

    @property
    def has_unwritten(self) -> bool:
        """Tell whether appends wait for a write."""
        return bool(self._write_queue.files)

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that wait in memory for a write."""
        return unwritten_bytes(self._state)

    @property
    def written_end_offset(self) -> int:
        """Exclusive bound of what the files hold."""
        return written_end(self._state)

    def write_plan(self) -> LogWrite | None:
        """Return the next write, for any thread; None when nothing waits, or while one runs."""
        return None if self._is_closed else plan_write(self._state)

    def written(self, plan: LogWrite) -> None:
        """Note a write that ran well: what it covers may be read from now on."""
        note_written(self._state, plan)

    def write_failed(self, plan: LogWrite) -> None:
        """Give back a write that failed; the log cannot go on."""
        plan.release()

    # --- durability and end of life ---

    def watch(self, *, on_rolled: Callable[[], None], on_window_full: Callable[[], None]) -> None:
        """Say whom an append tells that it sealed a segment, which now waits for a flush, or has filled a window.

        An append tells of a full window again and again until `writeback_plan` has begun the next one.
        """
        self._state.on_rolled = on_rolled
        self._state.on_window_full = on_window_full

    @property
    def active_base_offset(self) -> int:
        """Everything below lies in sealed segments."""
        return self._state.segments.active.base_offset

    def is_flush_due(self, flushed_offset: int) -> bool:
        """Decide whether the newest append has to be durable before it is answered; below the argument all are."""
        return is_flush_due(self._state.config, self._offsets.log_end_offset - flushed_offset)

    def ms_until_flush(self, now_ms: int) -> int | None:
        """Return after what time flush.ms asks for a flush, 0 for now; None when it does not."""
        return ms_until_flush(self._state, now_ms)

    def flush_plan(self, below: int | None = None) -> FlushPlan | None:
        """Return what must be synced to make everything appended so far durable, None when nothing is dirty.

        With `below`, sealed segments are enough where they hold everything below it.
        """
        return plan_flush(self._state, below)

    def flushed(self, plan: FlushPlan) -> None:
        """Note a plan that ran well: the recovery point moves. A log that was closed meanwhile only takes back pins."""
        if self._is_closed:
            plan.release()
        else:
            note_flushed(self._state, plan)

    def flush_failed(self, plan: FlushPlan) -> None:
        """Give back a plan whose run failed."""
        note_flush_failed(self._state, plan)

    def writeback_plan(self) -> WritebackPlan | None:
        """Return the sync that a full window asks for and begin the next window; None when it is not full."""
        return plan_writeback(self._state)

    def written_back(self, plan: WritebackPlan) -> None:
        """Note a write-back that ran well; nothing but its pin is left of it when the log was closed meanwhile."""
        if self._is_closed:
            plan.release()
        else:
            note_written_back(self._state, plan)

    def flush(self) -> None:
        """Make everything durable here and now. Raises: StorageFailure. Blocking: disk."""
        flush_now(self._state)

    def close(self) -> None:
        """Flush, trim the active segment and leave a producer snapshot at the log end; idempotent.

        Raises: StorageFailure, and then the directory must not be marked as cleanly shut down. Blocking: disk.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._guarded(self._close)
        finally:
            self._release_files()

    def _close(self) -> None:
        state = self._state
        write_now(state)
        active = state.segments.active
        active.write_final_time_entry()
        if state.epochs.is_worth_saving(state.offsets.log_end_offset):
            state.epochs.save()
            state.has_new_names = True
        flush_now(state)
        active.seal()
        state.producers.map_end_offset = state.offsets.log_end_offset
        if take_snapshot(state.fs, state.path, state.producers):
            state.fs.sync_dir(state.path)

    def fail(self) -> None:
        """Let go of the files of a log whose directory is no longer trusted; nothing is written."""
        self._is_closed = True
        self._release_files()

    def delete(self) -> None:
        """Remove the files of the log and its directory if nothing foreign is in it. Readers with pins go on."""
        self._is_closed = True
        self._release_files()
        self._guarded(lambda: remove_log_files(self._state.fs, self._state.path))

    def move_to_directory(self, path: str) -> None:
        """Follow a rename of the directory; open files stay open."""
        self._state.path = path
        self._state.epochs.move_to_directory(path)
        for segment in self._state.segments:
            segment.move_to_directory(path)

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise LogClosed(str(self.tp))

    def _release_files(self) -> None:
        for segment in self._state.segments:
            segment.release_files()
            self._state.page_cache.forget(segment.log)

    def _guarded(self, action: Callable[[], _T]) -> _T:
        try:
            return action()
        except OSError as error:
            raise StorageFailure(f"{self.path}: {error}", self.path) from error
        except (CorruptBatch, InvalidBatch, CorruptIndex) as error:
            raise CorruptRecord(f"{self.path}: {error}") from error

    def __repr__(self) -> str:
        offsets = self._offsets
        return (
            f"PartitionLog({self.tp}, start={offsets.log_start_offset}, stable={offsets.last_stable_offset}, "
            f"high_watermark={offsets.high_watermark}, end={offsets.log_end_offset}, segments={self.segment_count})"
        )


def remove_log_files(fs: FileSystem, path: str) -> None:
    """Remove every file of a log's directory and the directory; folders inside are not ours and keep it alive."""
    for entry in fs.list_dir(path):
        if not entry.is_dir:
            fs.unlink(os.path.join(path, entry.name))
    try:
        fs.remove_dir(path)
    except OSError as error:
        logger.warning("a deleted log's directory stays path=%s reason=%s", path, error)


def _first_batch_size(records: Buffer) -> int:
    return int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD


def _settle_topic_id(state: LogState, topic_id: bytes | None) -> bytes | None:
    """Read the topic id of the directory, or give it the one expected. Raises: InconsistentTopicId."""
    try:
        found = read_partition_metadata(state.fs, state.path)
    except CorruptCheckpoint as error:
        logger.warning("rewriting a damaged file path=%s reason=%s", error.path, error.reason)
        found = None
    if found is None and topic_id is not None:
        write_partition_metadata(state.fs, state.path, topic_id)
        state.unsynced_files.append(os.path.join(state.path, PARTITION_METADATA))
        state.has_new_names = True
    elif found is not None and topic_id is not None and found != topic_id:
        raise InconsistentTopicId(state.path, topic_id, found)
    return found or topic_id
