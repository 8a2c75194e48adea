"""Appending to a log: the numbered steps and the roll decision.

The order of a leader's append, and why it stands so:

1. validate: nothing may have changed when a batch is refused;
2. size against segment.bytes: an oversized batch must not cause a roll;
3. on a scheduled topic the time of a client's batch, which must not cause a roll either; a duplicate is answered
   whatever its time is by now. Nothing can be appended between this and 7;
4. roll if due, before the producer checks, as the reference does: a roll is harmless, but its snapshot must not contain
   the batch that is about to be written;
5. producer checks: duplicates answer with their first offsets, faults refuse; still nothing has changed;
6. stamp base offset and leader epoch, both outside the CRC;
7. write; on failure cut the file back, so that the next append starts on a batch boundary;
8. only then, in memory: producer state, log end, what is due. They never run ahead of the file.

Source: Kafka's UnifiedLog.append, LocalLog.roll.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from config.views import LogConfig
from protocol.records.batch import CONTROL_BIT, LOG_APPEND_TIME_BIT, BatchHeader, iter_batches, patch_offset_and_epoch
from protocol.records.control import EndTxnMarker
from protocol.records.errors import CorruptBatch
from storage.env.fs import Buffer
from storage.errors import (
    CorruptIndex,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    LogClosed,
    RecordListTooLarge,
    StorageFailure,
)
from storage.log.batch_set import NO_LIMIT, BatchSet
from storage.log.state import LogState
from storage.log.transactions import follow_batch, marker_of
from storage.log.validator import ValidatedBatch, validate
from storage.producers.entry import BatchMetadata
from storage.producers.snapshot import take_snapshot
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.segment import Segment, ensure_room_in_indexes
from storage.types import AppendOrigin

NO_TIMESTAMP: Final = -1
_CLIENT: Final = AppendOrigin.CLIENT
_RAFT: Final = AppendOrigin.RAFT
_REPLICATION: Final = AppendOrigin.REPLICATION
_new_tuple: Final = tuple.__new__


class AppendResult(NamedTuple):
    """Where a batch went; both offsets are inclusive, and those of the first time for a duplicate."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


def is_roll_due(
    segment: Segment, config: LogConfig, *, size: int, last_offset: int, timestamp: int, now_ms: int
) -> bool:
    """Decide whether `size` more bytes, ending at last_offset with that max timestamp, belong into a new segment."""
    used = segment.log.size
    if used > config.segment_bytes - size or segment.is_index_full:
        return True
    if not 0 <= last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
        return True
    return used > 0 and segment.waited_ms(now_ms, timestamp) > config.max_segment_ms - segment.jitter_ms


def roll(state: LogState, new_base_offset: int) -> Segment:
    """Seal the active segment and start a new one; an empty active one of the same base is made anew.

    Raises: OSError; IndexTooSmall, and then nothing has changed. Blocking: creates files.
    """
    ensure_room_in_indexes(state.config)
    active = state.segments.active
    is_replaced = active.base_offset == new_base_offset
    if is_replaced:
        assert active.log.size == 0, f"{active} cannot be replaced by a segment of the same base"
        state.segments.remove(active)
        active.unlink()
    else:
        state.unsynced_files += active.file_paths()  # the recovery point may lie at its end already
        active.seal()
        state.segments.note_use(active)
        state.producers.map_end_offset = new_base_offset
        take_snapshot(state.fs, state.path, state.producers, sync=False)  # a torn one is recognised and replaced
    segment = state.new_segment(new_base_offset)
    segment.create_files()
    state.segments.add(segment)
    state.has_new_names = True
    state.stats.rolled_segments += 1
    if not is_replaced:
        state.on_rolled()
    return segment


class LogAppender:
    """All appends of one log."""

    __slots__ = ("_config", "_max_segment_ms", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._config: LogConfig | None = None  # the settings that the derived values below belong to
        self._max_segment_ms = 0

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: AppendOrigin,
        request_version: int,
        validated: ValidatedBatch | None = None,
    ) -> AppendResult:
        """Append one batch as leader, wholly or not at all. Whether a flush is due afterwards, is_flush_due tells.

        Raises: storage.errors; the log is then unchanged. Blocking: cpu, page cache; a roll creates files.
        """
        state = self._state
        if state.is_closed:
            raise LogClosed(str(state.tp))
        config = state.config
        now_ms = state.clock.now_ms()
        if validated is None:
            validated = validate(records, config=config, now_ms=now_ms, origin=origin, request_version=request_version)
        header, rewritten = validated
        batch = records if rewritten is None else rewritten
        size = len(batch)
        if size > config.segment_bytes:
            raise RecordListTooLarge(size, config.segment_bytes)

        offsets = state.offsets
        base_offset = offsets.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        delivery = state.delivery
        if delivery is not None and origin is _CLIENT:
            try:
                delivery.admit(max_timestamp, now_ms)
            except InvalidTimestamp:
                known = state.producers.check(header, origin, None) if header.producer_id >= 0 else None
                if known is None:
                    raise
                return self._answer_duplicate(known)
        if config is not self._config:
            self._adopt(config)
        segment = state.segments.active
        used = segment.log.size
        first_timestamp = segment.rolling_timestamp
        if (
            used > config.segment_bytes - size
            or first_timestamp < 0
            or max_timestamp - first_timestamp > self._max_segment_ms - segment.jitter_ms
            or segment.is_index_full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            segment = self._roll_if_due(size, base_offset, last_offset, max_timestamp, now_ms)
            used = segment.log.size

        has_producer = header.producer_id >= 0
        marker = None
        if has_producer:
            if header.attributes & CONTROL_BIT:
                marker = marker_of(header, batch)
            known = state.producers.check(header, origin, marker)
            if known is not None:
                return self._answer_duplicate(known)

        if type(batch) is bytes or (type(batch) is memoryview and batch.readonly):
            batch = bytearray(batch)
        patch_offset_and_epoch(batch, 0, base_offset, leader_epoch)  # type: ignore[arg-type]  # writable by now
        epochs = state.epochs
        if leader_epoch != epochs.latest_epoch:
            epochs.assign(leader_epoch, base_offset)
        try:
            segment.append(batch, size, last_offset, max_timestamp)
        except (OSError, CorruptIndex) as error:
            raise self._undo(segment, used, base_offset, error) from error
        if has_producer:
            stored = _new_tuple(BatchHeader, (base_offset, *header[1:]))
            if marker is None:
                state.producers.append(stored)  # nothing else ends a transaction, so there is nothing to index
            else:
                self._follow(segment, stored, marker)
        else:
            state.producers.map_end_offset = last_offset + 1
        offsets.log_end_offset = last_offset + 1
        if delivery is not None:
            delivery.note_append(segment, used, base_offset, last_offset, max_timestamp, now_ms)
        stats = state.stats
        stats.appended_batches += 1
        stats.appended_bytes += size
        if used + size >= segment.writeback_at:
            state.on_window_full()
        append_time = max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else NO_TIMESTAMP
        return _new_tuple(AppendResult, (base_offset, last_offset, append_time, offsets.log_start_offset, False))

    def append_set(self, records: Buffer, *, leader_epoch: int, origin: AppendOrigin) -> AppendResult:
        """Append several batches of the metadata log, or a leader's bytes with their offsets kept.

        A torn batch at the end of replicated bytes is ignored. Raises: CorruptRecord, InvalidRecord,
        RecordListTooLarge, StorageFailure; the log is then unchanged.
        """
        if origin is _RAFT:
            records = self._stamp(bytearray(records), leader_epoch)
        found = self.append_whole_batches(memoryview(records), origin=origin)
        if not found.batches:
            raise InvalidRecord("there is no whole batch to append")
        return AppendResult(
            found.first_offset, found.last_offset, NO_TIMESTAMP, self._state.offsets.log_start_offset, False
        )

    def append_whole_batches(
        self, data: memoryview, *, origin: AppendOrigin = _REPLICATION, max_batches: int = NO_LIMIT
    ) -> BatchSet:
        """Append the whole batches at the start of `data`, as many as may be at once; none is not an error.

        Raises: as append_set.
        """
        state = self._state
        state.ensure_open()
        found = BatchSet(state.offsets.log_end_offset)
        found.take(data, max_batches=max_batches)
        if not found.batches:
            return found
        if found.size > state.config.segment_bytes and origin is _RAFT:
            raise RecordListTooLarge(found.size, state.config.segment_bytes)
        if state.config is not self._config:
            self._adopt(state.config)
        first, last_offset = found.first_offset, found.last_offset
        segment = self._roll_if_due(found.size, first, last_offset, found.max_timestamp, state.clock.now_ms())
        used = segment.log.size
        for epoch, base_offset in found.epochs:
            state.epochs.assign(epoch, base_offset)
        try:
            segment.append_set(data[: found.size], found.batches)
        except (OSError, CorruptIndex) as error:
            raise self._undo(segment, used, first, error) from error
        for header, marker in found.followed:
            self._follow(segment, header, marker)
        state.producers.map_end_offset = found.end_offset
        state.offsets.advance_end(found.end_offset)
        if state.delivery is not None:
            state.delivery.forget_largest()
        state.stats.appended_batches += len(found.batches)
        state.stats.appended_bytes += found.size
        if segment.log.size >= segment.writeback_at:
            state.on_window_full()
        return found

    def _stamp(self, data: bytearray, leader_epoch: int) -> bytearray:
        """Give the batches of the metadata log their offsets."""
        expected = self._state.offsets.log_end_offset
        try:
            for position, header in iter_batches(data):
                patch_offset_and_epoch(data, position, expected, leader_epoch)
                expected += header.last_offset_delta + 1
        except CorruptBatch as error:
            raise CorruptRecord(str(error)) from error
        return data

    def _answer_duplicate(self, known: BatchMetadata) -> AppendResult:
        state = self._state
        state.stats.duplicate_batches += 1
        append_time = known.timestamp if state.config.is_log_append_time else NO_TIMESTAMP
        return AppendResult(
            known.first_offset, known.last_offset, append_time, state.offsets.log_start_offset, is_duplicate=True
        )

    def _follow(self, segment: Segment, header: BatchHeader, marker: EndTxnMarker | None) -> None:
        """Take up a written batch; only the transaction index can fail, and a rebuild makes that good."""
        try:
            follow_batch(self._state.producers, segment, header, marker)
        except OSError as error:
            self._state.offsets.log_end_offset = header.next_offset
            raise StorageFailure(f"cannot index a transaction: {error}", segment.txn_index.path) from error

    def _adopt(self, config: LogConfig) -> None:
        active = self._state.segments.active
        try:
            active.adopt(config)
        except OSError as error:
            raise StorageFailure(f"cannot follow the settings: {error}", active.log.path) from error
        self._config = config
        self._max_segment_ms = config.max_segment_ms

    def _roll_if_due(self, size: int, first: int, last: int, timestamp: int, now_ms: int) -> Segment:
        state = self._state
        segment = state.segments.active
        config = state.config
        if not is_roll_due(segment, config, size=size, last_offset=last, timestamp=timestamp, now_ms=now_ms):
            return segment
        try:
            return roll(state, max(first, state.offsets.log_end_offset))
        except OSError as error:
            raise StorageFailure(f"cannot roll: {error}", state.path) from error

    def _undo(self, segment: Segment, size: int, base_offset: int, error: Exception) -> StorageFailure:
        failure = StorageFailure(f"cannot append: {error}", segment.log.path)
        try:
            segment.undo_append(size, base_offset)
        except OSError as second:
            failure.add_note(f"nor cut the file back: {second}")
        return failure
