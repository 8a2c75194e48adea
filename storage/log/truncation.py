"""Cutting a log: its end back to an offset, everything away, its start forward.

The end is only cut on a follower or a future log; a start moves by retention or on a client's demand.
Source: Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt, deleteOldSegments.
"""

from __future__ import annotations

import logging

from storage.log.delivery import note_cut
from storage.log.direct_writes import note_truncated, write_now
from storage.log.producer_rebuild import rebuild_producers
from storage.log.state import LogState
from storage.producers.snapshot import delete_snapshots_before, take_snapshot

logger = logging.getLogger(__name__)


def truncate_to(state: LogState, offset: int) -> bool:
    """Cut the log so that its end is `offset`; tell whether batches were removed.

    A batch that spans the offset goes whole; the end is `offset` all the same, a gap and not an error. What is cut is
    gone for good when this returns: coming back after a crash, it would overlap with what was appended meanwhile.
    Raises: OSError. Blocking: disk.
    """
    offsets = state.offsets
    if offset >= offsets.log_end_offset:
        state.epochs.truncate_from_end(offsets.log_end_offset)
        return False
    if offset < state.segments.first().base_offset:
        truncate_fully(state, offset)
        return True
    note_cut(state, offset)  # first: what fails halfway has released too little, not too much
    write_now(state)
    later = [segment for segment in state.segments if segment.base_offset > offset]
    for segment in reversed(later):
        state.segments.remove(segment)
        segment.unlink()
    if later:
        state.fs.sync_dir(state.path)
    active = state.segments.active
    active.truncate_to(offset)
    for file in active.open_files():
        file.sync()
    if not active.is_active:
        active.activate()
        active.adopt(state.config)
    note_truncated(state, offset)
    state.epochs.truncate_from_end(offset)
    offsets.truncate(offset)
    producers = state.producers
    ended = producers.ended_transactions()
    rebuild_producers(state, log_start_offset=offsets.log_start_offset, end_offset=offset)
    take_snapshot(state.fs, state.path, producers, sync=False)
    producers.keep_ended(ended, below=offset)
    producers.on_high_watermark(offsets.high_watermark)
    offsets.set_last_stable(state.producers.first_unstable_offset)
    state.has_new_names = True
    state.stats.truncations += 1
    state.cut_count += 1
    state.on_cut(offset)
    logger.info("truncated topic=%s partition=%d offset=%d dir=%s", *state.tp, offset, state.path)
    return True


def advance_log_start(state: LogState, offset: int) -> bool:
    """Move the log start forward, at most to the high watermark; tell whether it moved. Nothing is written.

    A restart finds the start again in the segment names, or in the checkpoint when it lies within a segment.
    """
    if not state.offsets.advance_log_start(offset):
        return False
    state.producers.on_log_start_incremented(offset)
    state.epochs.truncate_from_start(offset)
    if state.delivery is not None:
        state.delivery.follow_start(offset)
    return True


def truncate_fully(state: LogState, offset: int, log_start_offset: int | None = None) -> None:
    """Remove everything and leave one empty segment at `offset`. Raises: OSError. Blocking: disk."""
    assert not state.unfinished_removals, "a rename that is still to come would take the new segment's files"
    is_new = not len(state.segments) and state.has_unsynced_directory  # its first flush makes all its names durable
    for segment in state.segments:
        segment.unlink()
    segment = state.new_segment(offset)
    segment.create_files()
    state.segments.replace_all(segment)
    if not is_new:
        state.fs.sync_dir(state.path)  # before a log-start checkpoint says that the names tell the start
    note_truncated(state, offset)
    start = offset if log_start_offset is None else log_start_offset
    state.epochs.clear()
    state.offsets.restart(start, offset)
    note_cut(state, offset)
    if state.delivery is not None:
        state.delivery.begin_at(offset)
    delete_snapshots_before(state.fs, state.path, 1 << 63)
    state.producers.reset(offset)
    state.has_new_names = True
    state.stats.truncations += 1
    state.cut_count += 1
    state.on_cut(offset)
