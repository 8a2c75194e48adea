"""Which logs need cleaning, which part of them may be cleaned, and what the cleaning needs to know.

The range [first dirty, first uncleanable) begins at the cleaner's checkpoint and ends with a whole segment: never in
the active one, never above the last stable offset, never in a segment with a record younger than the minimum lag.
Source: Kafka's LogCleanerManager, LogToClean, Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from config.views import LONG_MAX
from protocol.records.compression import Codec
from storage.compaction.task import CleaningTask, LastRecord, SourceSegment, TxnIndexSource
from storage.segment.offset_index import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:  # the cleaner's process has no use for them
    from config.views import CleanerConfig, LogConfig
    from storage.log.state import LogState
    from storage.segment.segment import Segment

logger = logging.getLogger(__name__)

_LEVELLED = (Codec.GZIP, Codec.LZ4, Codec.ZSTD)


class Dirtiness(NamedTuple):
    """What one log has to clean; offsets are those of a pass that would begin now."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_forced: bool  # the oldest dirty segment exceeds the maximum lag
    overdue_ms: int  # by how much, 0 when it does not
    checkpoint_is_reset: bool  # the checkpoint was impossible: write first_dirty_offset in its place

    @property
    def ratio(self) -> float:
        """Share of cleanable bytes, 0 for an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def dirtiness(state: LogState, checkpoint: int | None, now_ms: int) -> Dirtiness:
    """Measure a log. Blocking: index pages and one header a dirty segment, and these only where a lag is configured."""
    config = state.config
    first_dirty, is_reset = _first_dirty_offset(state, checkpoint)
    active = state.segments.active
    sealed = [segment for segment in state.segments if segment is not active]
    dirty = _from_floor(sealed, first_dirty) if first_dirty < active.base_offset else []
    bound = min(state.offsets.last_stable_offset, active.base_offset, _lag_bound(state, dirty, now_ms))
    bound = max(bound, first_dirty)
    first_uncleanable = active.base_offset
    if bound < active.base_offset:
        first_uncleanable = next((one.base_offset for one in _from_floor(sealed, bound)), active.base_offset)
    start = min(first_dirty, first_uncleanable)
    cleanable = _from_floor(sealed, start) if start < first_uncleanable else []
    overdue_ms = _overdue_ms(dirty, config, now_ms)
    return Dirtiness(
        first_dirty,
        first_uncleanable,
        sum(one.log.size for one in sealed if one.base_offset < first_dirty),
        sum(one.log.size for one in cleanable if one.base_offset < first_uncleanable),
        overdue_ms > 0,
        overdue_ms,
        is_reset,
    )


def _first_dirty_offset(state: LogState, checkpoint: int | None) -> tuple[int, bool]:
    """Return where the dirty part begins and whether the checkpoint cannot be right."""
    offsets = state.offsets
    if checkpoint is None:
        return offsets.log_start_offset, False
    if offsets.log_start_offset <= checkpoint <= offsets.log_end_offset:
        return checkpoint, False
    if checkpoint > offsets.log_end_offset or not state.config.is_delete:  # retention may overtake a checkpoint
        logger.warning(
            "the cleaner begins anew topic=%s partition=%d checkpoint=%d start=%d end=%d",
            *state.tp,
            checkpoint,
            offsets.log_start_offset,
            offsets.log_end_offset,
        )
    return offsets.log_start_offset, True


def _from_floor(segments: Sequence[Segment], offset: int) -> list[Segment]:
    """Return the segment that holds `offset` and those after it; all of them when it lies below."""
    at = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return list(segments[max(at, 0) :])


def _lag_bound(state: LogState, dirty: Iterable[Segment], now_ms: int) -> int:
    """Return the base of the first dirty segment with a record younger than the minimum lag."""
    config = state.config
    if config.min_compaction_lag_ms <= 0:
        return LONG_MAX
    for segment in dirty:
        segment.ensure_indexes()
        newest_ms = segment.largest_timestamp
        if newest_ms < 0:
            newest_ms = state.fs.mtime_ms(segment.log.path)
        if newest_ms > now_ms - config.min_compaction_lag_ms:
            return segment.base_offset
    return LONG_MAX


def _overdue_ms(dirty: Iterable[Segment], config: LogConfig, now_ms: int) -> int:
    if config.max_compaction_lag_ms >= LONG_MAX:
        return 0
    timestamps = [timestamp for segment in dirty if (timestamp := segment.first_timestamp()) > 0]
    return max(now_ms - max(config.max_compaction_lag_ms, 0) - min(timestamps), 0) if timestamps else 0


def is_cleanable(one: Dirtiness, config: LogConfig) -> bool:
    """Tell whether a log is to be cleaned: by its ratio (strict), or because its oldest dirty data waits too long."""
    return one.cleanable_bytes > 0 and (one.is_forced or one.ratio > config.min_cleanable_dirty_ratio)


def task_for(state: LogState, one: Dirtiness, *, now_ms: int, cleaner: CleanerConfig) -> CleaningTask | None:
    """Write down everything a pass needs; None when there is nothing to clean. Blocking: none."""
    sources = tuple(
        SourceSegment(segment.base_offset, segment.log.size)
        for segment in state.segments
        if segment.base_offset < one.first_uncleanable_offset and segment is not state.segments.active
    )
    if not sources or one.first_dirty_offset >= one.first_uncleanable_offset:
        return None
    config = state.config
    levels = ((codec, config.compression_level(codec.name.lower())) for codec in _LEVELLED)
    return CleaningTask(
        directory=state.path,
        tp=state.tp,
        cut_count=state.cut_count,
        sources=sources,
        txn_indexes=tuple(
            TxnIndexSource(segment.base_offset, segment.txn_index.size)
            for segment in state.segments
            if segment.txn_index.size
        ),
        active_producers=tuple(
            LastRecord(entry.producer_id, entry.producer_epoch, entry.last_offset)
            for entry in state.producers.producers.values()
            if entry.last_offset < one.first_uncleanable_offset
        ),
        first_dirty_offset=one.first_dirty_offset,
        first_uncleanable_offset=one.first_uncleanable_offset,
        now_ms=now_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        max_decompressed_message_bytes=config.max_decompressed_message_bytes,
        compression_levels=tuple((int(codec), level) for codec, level in levels if level is not None),
        dedupe_buffer_bytes=cleaner.dedupe_buffer_size // max(cleaner.threads, 1),
        load_factor=cleaner.io_buffer_load_factor,
        io_buffer_bytes=cleaner.io_buffer_size // max(cleaner.threads, 1) // 2,
    )


class SegmentSizes(NamedTuple):
    """What decides which segments become one: bytes of the log and of the entries of both sparse indexes."""

    source: SourceSegment
    index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SegmentSizes], *, segment_bytes: int, segment_index_bytes: int, end_offset: int
) -> list[list[SourceSegment]]:
    """Join neighbours while their sum fits into one segment; `end_offset` is above every offset of the last one."""
    groups: list[list[SourceSegment]] = []
    log_bytes = index_bytes = time_index_bytes = 0
    for at, (source, index_size, time_index_size) in enumerate(segments):
        following = segments[at + 1].source.base_offset if at + 1 < len(segments) else end_offset
        fits = (
            bool(groups)
            and log_bytes + source.log_bytes <= segment_bytes
            and index_bytes + index_size <= segment_index_bytes
            and time_index_bytes + time_index_size <= segment_index_bytes
            and (not source.log_bytes or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if not fits:
            groups.append([])
            log_bytes = index_bytes = time_index_bytes = 0
        groups[-1].append(source)
        log_bytes += source.log_bytes
        index_bytes += index_size
        time_index_bytes += time_index_size
    return groups
