"""The segments of one log in the order of their base offsets, and a bound on the files that sealed ones keep open."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from storage.segment.segment import Segment

MAX_OPEN_SEALED: Final = 4  # per log; consumers far behind read a few old segments at a time


class Segments:
    """Ordered map base offset → Segment; the last one is the active one."""

    __slots__ = ("_bases", "_on_removed", "_open_sealed", "_segments", "active")

    def __init__(self, on_removed: Callable[[Segment], None]) -> None:
        self._on_removed = on_removed
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self._open_sealed: dict[int, Segment] = {}  # least recently used first
        self.active: Segment  # set by the first add; written by add and remove

    def add(self, segment: Segment) -> None:
        """Insert a segment; a base offset may occur once."""
        at = bisect_left(self._bases, segment.base_offset)
        assert at == len(self._bases) or self._bases[at] != segment.base_offset, segment
        self._bases.insert(at, segment.base_offset)
        self._segments.insert(at, segment)
        self.active = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        """Take a segment out of the map; its files are untouched."""
        at = bisect_left(self._bases, segment.base_offset)
        assert self._segments[at] is segment
        del self._bases[at], self._segments[at]
        self._open_sealed.pop(segment.base_offset, None)
        if self._segments:
            self.active = self._segments[-1]
        self._on_removed(segment)

    def replace_all(self, segment: Segment) -> None:
        """Let one segment take the place of all others; a thread that looks meanwhile never finds none."""
        removed = self._segments
        self._bases, self._segments = [segment.base_offset], [segment]
        self.active = segment
        self._open_sealed.clear()
        for one in removed:
            self._on_removed(one)

    def floor(self, offset: int) -> Segment | None:
        """Return the segment with the largest base <= offset."""
        at = bisect_right(self._bases, offset) - 1
        return self._segments[at] if at >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        """Return the segment that follows."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def starting_with(self, offset: int) -> list[Segment]:
        """Return the segment that holds `offset` and all later ones; all of them when the offset is below."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def overlapping(self, start: int, end: int) -> list[Segment]:
        """Return the segments that may hold offsets of [start, end), the floor of `start` first."""
        return [segment for segment in self.starting_with(start) if segment.base_offset < end]

    def ascending(self) -> Sequence[Segment]:
        """Return all of them, the oldest first, as they are: whoever changes the map meanwhile takes a slice."""
        return self._segments

    def first(self) -> Segment:
        """Return the oldest segment."""
        return self._segments[0]

    def note_use(self, segment: Segment) -> None:
        """Count a read of a sealed segment; the least recently read one beyond the bound gives its files back."""
        if segment.is_active:
            return
        self._open_sealed.pop(segment.base_offset, None)
        self._open_sealed[segment.base_offset] = segment
        if len(self._open_sealed) > MAX_OPEN_SEALED:
            oldest = self._open_sealed.pop(next(iter(self._open_sealed)))
            if not oldest.log.is_waiting:  # else it gives them back after its next use
                oldest.release_files()

    def size_bytes(self) -> int:
        """Return the bytes of all `.log` files."""
        return sum(segment.log.size for segment in self._segments)

    def base_offsets(self) -> list[int]:
        """Return the base offsets, ascending."""
        return list(self._bases)

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._segments))

    def __len__(self) -> int:
        return len(self._segments)
