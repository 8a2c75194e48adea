"""Bringing the producer state of a log to an offset: the newest usable snapshot, then a replay of what follows it."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.records.errors import CorruptBatch
from storage.errors import CorruptRecord
from storage.log.state import LogState
from storage.log.transactions import replay_batch
from storage.producers.snapshot import take_snapshot, truncate_and_load
from storage.segment.segment import Segment


def rebuild_producers(
    state: LogState, *, log_start_offset: int, end_offset: int, known: Sequence[int] | None = None
) -> None:
    """Load the newest snapshot at or below end_offset and replay the batches up to it.

    On the way a snapshot is taken at the base of the last two segments, so that the next truncation or start is short.
    known are the snapshots there are, where the directory was listed already.
    Raises: CorruptRecord where the log cannot be read. Blocking: disk, cpu.
    """
    producers = state.producers
    start = truncate_and_load(
        state.fs,
        state.path,
        producers,
        log_start_offset=log_start_offset,
        log_end_offset=end_offset,
        now_ms=state.clock.now_ms(),
        known=known,
    )
    worth_a_snapshot = set(state.segments.base_offsets()[-2:])
    for segment in state.segments.overlapping(start, end_offset):
        from_offset = max(start, segment.base_offset, producers.map_end_offset)
        producers.map_end_offset = from_offset
        if segment.base_offset in worth_a_snapshot and segment.base_offset == from_offset:
            take_snapshot(state.fs, state.path, producers, sync=False)
        if from_offset < end_offset:  # else a clean stop has left its snapshot at the end
            _replay(state, segment, from_offset, end_offset)
    producers.map_end_offset = end_offset


def write_empty_snapshots(state: LogState, end_offset: int) -> None:
    """Stand in for the missing snapshots of a log that was closed in order by a broker which wrote none."""
    for offset in (*state.segments.base_offsets()[-2:], end_offset):
        if offset > state.producers.map_end_offset:
            state.producers.map_end_offset = offset
            take_snapshot(state.fs, state.path, state.producers, sync=False)
    state.producers.map_end_offset = end_offset


def _replay(state: LogState, segment: Segment, from_offset: int, end_offset: int) -> None:
    try:
        position = segment.locate(from_offset)
        if position is None:
            return
        for _, header, batch in segment.log.batches(position):
            if header.base_offset >= end_offset:
                return
            replay_batch(state.producers, header, batch)
    except CorruptBatch as error:
        raise CorruptRecord(f"cannot replay {segment.log.path}: {error}") from error
