"""PartitionLog: the façade of one partition's log. It owns the parts and delegates everything to them.

Not shared between threads; the only piece that may run elsewhere is a FlushPlan. I/O errors leave as StorageFailure.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from typing import Final

from config.views import LogConfig
from protocol.records.batch import LOG_OVERHEAD
from protocol.records.errors import CorruptBatch
from storage.compaction.cleaning import LogCleaning
from storage.env.clock import Clock, Rng, monotonic_ms
from storage.env.fs import Buffer, FileSystem
from storage.errors import (
    CorruptIndex,
    CorruptRecord,
    OffsetOutOfRange,
    StorageFailure,
)
from storage.log.append import AppendResult, LogAppender, roll
from storage.log.append_times import AppendTimes
from storage.log.copying import LogCopy
from storage.log.deletions import Deletions, remove_log_files
from storage.log.delivery import Delivery, follow_mode, released_end, take_over
from storage.log.direct_writes import DirectWrites, write_now
from storage.log.durability import Durability
from storage.log.flush import flush_now
from storage.log.guard import guarded
from storage.log.loader import LoadParameters, load
from storage.log.log_transactions import LogTransactions
from storage.log.offsets import LogOffsets
from storage.log.page_budget import PageCacheBudget
from storage.log.reader import FetchSlice, LogReader
from storage.log.removal import Removal, note_removed, retain
from storage.log.state import LogState
from storage.log.time_search import TimeSearch, TimestampOffset, plan_first, plan_largest
from storage.log.topic_ids import settle_topic_id, write_topic_id
from storage.log.truncation import advance_log_start, truncate_fully, truncate_to
from storage.log.validator import LATEST_REQUEST_VERSION, ValidatedBatch
from storage.producers.entry import ProducerEntry
from storage.producers.snapshot import take_snapshot
from storage.producers.state import DEFAULT_EXPIRATION_MS, ProducerStateManager
from storage.segment.names import MAX_OFFSET
from storage.segment.open_files import OpenFiles
from storage.stats import LoadProgress, StorageStats
from storage.types import AppendOrigin, TopicPartition

_RAFT: Final = AppendOrigin.RAFT
_REPLICATION: Final = AppendOrigin.REPLICATION


class PartitionLog:
    """Append, read, look up, truncate, flush and close one log."""

    __slots__ = (
        "_appender",
        "_offsets",
        "_reader",
        "_state",
        "_write_queue",
        "cleaning",
        "direct_writes",
        "durability",
        "tp",
        "transactions",
    )

    def __init__(self, state: LogState) -> None:
        self.tp = state.tp
        self._state = state
        self._offsets = state.offsets
        self._write_queue = state.write_queue
        self._appender = LogAppender(state)
        self._reader = LogReader(state)
        self.durability = Durability(state)
        self.direct_writes = DirectWrites(state)
        self.cleaning = LogCleaning(state)
        self.transactions = LogTransactions(state, self._reader)

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
            state.topic_id = settle_topic_id(state, topic_id)
        except OSError as error:
            raise StorageFailure(f"cannot load {path}: {error}", path) from error
        state.stats.add_loading(own_progress)
        if open_files is not None:
            state.count_files(open_files)
        follow_mode(state)
        if state.delivery is not None:
            state.delivery.learn_order()
        return cls(state)

    # --- what it is ---

    @property
    def topic_id(self) -> bytes | None:
        """Id of the topic's incarnation, None for logs of brokers that had none."""
        return self._state.topic_id

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Give a log an id that has none, or whose file did not survive. Raises: StorageFailure. Blocking: disk."""
        guarded(self._state, "write the topic id in", lambda: write_topic_id(self._state, topic_id))
        self._state.topic_id = topic_id

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
        follow_mode(self._state)

    @property
    def delivery(self) -> Delivery | None:
        """What is released to consumers while the topic is scheduled; None while it is immediate."""
        return self._state.delivery

    @property
    def released_end_offset(self) -> int:
        """Exclusive bound of what is replicated and released: what may be deleted."""
        return released_end(self._state)

    @property
    def offsets(self) -> LogOffsets:
        """All offsets at once, for who reads several; only the log moves them."""
        return self._offsets

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
    def recovery_point_to_checkpoint(self) -> int:
        """What the next start may rely on: of a copy not what is unproven, although it is on disk. Any thread."""
        point, unproven_from = self._offsets.recovery_point, self._state.unproven_from
        return point if unproven_from is None else min(point, unproven_from)

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
        first = state.segments.first().base_offset
        return min(first, *state.unfinished_removals) if state.unfinished_removals else first

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
        return self._state.is_closed

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
        try:
            return self._reader.read(start_offset, max_bytes=max_bytes, bound=bound, min_one_batch=min_one_batch)
        except OSError as error:
            raise StorageFailure(f"cannot read {self.path}: {error}", self.path) from error
        except (CorruptBatch, CorruptIndex) as damage:
            raise CorruptRecord(f"cannot read {self.path}: {damage}") from damage

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
        self._state.ensure_open()
        return plan_first(self._state, timestamp, bound)

    def largest_timestamp_search(self, bound: int) -> TimeSearch | None:
        """Plan offset_of_max_timestamp for another thread; None when there is surely nothing. Raises: LogClosed."""
        self._state.ensure_open()
        return plan_largest(self._state, bound)

    def append_times(self, offsets: Iterable[int]) -> AppendTimes:
        """Plan to find when records were appended, for another thread. Raises: LogClosed, StorageFailure."""
        self._state.ensure_open()
        return guarded(self._state, "look into", lambda: AppendTimes(self._state, offsets))

    def holds(self, search: TimeSearch | AppendTimes) -> bool:
        """Tell whether what a search came to counts: the log was not closed, cut or cleaned under it."""
        return not self._state.is_closed and search.still_holds(self._state)

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
        if self._state.is_closed:
            return None
        return guarded(self._state, "apply retention to", lambda: retain(self._state, now_ms))

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
        return guarded(self._state, "truncate", lambda: truncate_to(self._state, offset))

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything and begin at `offset`. Blocking: disk."""
        self._reader.forget_positions()
        guarded(self._state, "truncate", lambda: truncate_fully(self._state, offset, log_start_offset))

    def roll(self) -> None:
        """Seal the active segment and start a new one at the log end; nothing happens to an empty one."""
        if self._state.segments.active.log.size:
            guarded(self._state, "roll", lambda: roll(self._state, self._offsets.log_end_offset))

    # --- end of life ---

    def share(
        self, *, stats: StorageStats, deletions: Deletions, page_cache: PageCacheBudget, open_files: OpenFiles
    ) -> None:
        """Count with other logs from now on, instead of alone; files of segments removed so far may go at once."""
        state = self._state
        paths = [os.path.join(state.path, os.path.basename(path)) for path in state.deletions.take_due(MAX_OFFSET)]
        deletions.schedule(monotonic_ms(state.clock), paths)
        state.stats, state.deletions, state.page_cache = stats, deletions, page_cache
        state.unproven_from = None
        for segment in state.segments:
            segment.release_files()  # opened again when they are used, and counted then
        state.count_files(open_files)

    def trust_below(self, offset: int) -> None:
        """Say of a copy that was loaded up to where no batch can be missing; the rest will be copied again."""
        if offset < self._offsets.log_end_offset:
            self._state.unproven_from = offset

    def copy_into(self, target: PartitionLog) -> LogCopy:
        """Begin to copy into a log in another directory, or go on with that; one copy at a time is made."""
        return LogCopy(self._state, target, target._state)

    def take_over_delivery(self, before: PartitionLog) -> None:
        """Go on with what was released of a log whose copy this is, which has the same records."""
        take_over(self._state, before._state)

    def flush(self) -> None:
        """Make everything durable here and now. Raises: StorageFailure. Blocking: disk."""
        flush_now(self._state)

    def close(self) -> None:
        """Flush, trim the active segment and leave a producer snapshot at the log end; idempotent.

        Raises: StorageFailure, and then the directory must not be marked as cleanly shut down. Blocking: disk.
        """
        if self._state.is_closed:
            return
        self._state.is_closed = True
        try:
            guarded(self._state, "close", self._close)
        finally:
            self._release_files()

    def _close(self) -> None:
        state = self._state
        write_now(state)
        active = state.segments.active
        active.write_final_time_entry()
        if state.epochs.is_worth_saving(state.offsets.log_end_offset):
            state.epochs.plan_save().run()
            state.has_new_names = True
        flush_now(state)
        active.seal()
        state.producers.map_end_offset = state.offsets.log_end_offset
        if take_snapshot(state.fs, state.path, state.producers):
            state.fs.sync_dir(state.path)

    def fail(self) -> None:
        """Let go of the files of a log whose directory is no longer trusted; nothing is written."""
        self._state.is_closed = True
        self._release_files()

    def delete(self) -> None:
        """Remove the files of the log and its directory if nothing foreign is in it. Readers with pins go on."""
        self._state.is_closed = True
        self._release_files()
        guarded(self._state, "remove", lambda: remove_log_files(self._state.fs, self._state.path))

    def move_to_directory(self, path: str) -> None:
        """Follow a rename of the directory; open files stay open."""
        state = self._state
        state.path = path
        state.unsynced_files = [os.path.join(path, os.path.basename(file)) for file in state.unsynced_files]
        state.epochs.move_to_directory(path)
        for segment in state.segments:
            segment.move_to_directory(path)

    def _release_files(self) -> None:
        for segment in self._state.segments:
            segment.release_files()
            self._state.page_cache.forget(segment.log)

    def __repr__(self) -> str:
        offsets = self._offsets
        return (
            f"PartitionLog({self.tp}, start={offsets.log_start_offset}, stable={offsets.last_stable_offset}, "
            f"high_watermark={offsets.high_watermark}, end={offsets.log_end_offset}, segments={self.segment_count})"
        )


def _first_batch_size(records: Buffer) -> int:
    return int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
