"""Segments as a plan saw them, for reads in any thread, and whether they still are what they were.

The log goes on meanwhile: appends and rolls are behind what was written down. Segments that were removed, cleaned or
cut are noticed afterwards, on the owner's side; whatever a plan came to, an error too, then counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from storage.env.fs import FileSystem
from storage.errors import CorruptIndex
from storage.log.state import LogState
from storage.segment.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.segment.offset_index import OffsetIndex
from storage.segment.segment import Segment
from storage.segment.time_index import TimeIndex
from storage.segment.view import SegmentView


class LogViews:
    """The segments that a plan reads. Immutable after construction."""

    __slots__ = ("_cut_count", "_segments", "all", "path")

    def __init__(self, state: LogState, segments: Sequence[Segment]) -> None:
        self.path = state.path
        self.all = [segment.view() for segment in segments]
        self._segments = segments  # for still_hold only: they belong to the owner
        self._cut_count = state.cut_count

    def still_hold(self, state: LogState) -> bool:
        """Tell whether what was planned on is still there; on the owner's side."""
        if state.cut_count != self._cut_count or state.path != self.path:
            return False
        floor = state.segments.floor
        return all(
            floor(view.base_offset) is segment and segment.marker == view.marker
            for segment, view in zip(self._segments, self.all, strict=True)
        )


def position_in(fs: FileSystem, view: SegmentView, offset: int) -> int:
    """Return a position at or before the batch that holds `offset`; 0 where the index cannot tell. Blocking: disk."""
    if offset <= view.base_offset or not view.index_bytes:
        return 0
    index = OffsetIndex(fs, view.path(INDEX_SUFFIX), view.base_offset, 0)
    index.file.open_to_read()
    try:
        index.load(view.index_bytes)
        index.check(view.log_bytes)
        return index.lookup(offset)
    except CorruptIndex:
        return 0
    finally:
        index.file.release()


@contextmanager
def time_index_of(fs: FileSystem, view: SegmentView) -> Iterator[TimeIndex | None]:
    """Open the time index; None when it says nothing. Blocking: disk."""
    if not view.time_index_bytes:
        yield None
        return
    index = TimeIndex(fs, view.path(TIME_INDEX_SUFFIX), view.base_offset, 0)
    index.file.open_to_read()
    try:
        try:
            index.load(view.time_index_bytes)
            index.check()
            is_sound = not index.is_blank
        except CorruptIndex:
            is_sound = False
        yield index if is_sound else None
    finally:
        index.file.release()
