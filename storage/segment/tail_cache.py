"""The newest bytes of a `.log` that is written past the page cache: a window of whole recent appends, in memory.

The window [start, end) ends at the logical size. Eviction takes the oldest chunks and never the newest one, so the
bound is the cap and one append. Only whole reads come from here: nothing is mixed with what the file holds.
"""

from __future__ import annotations

from bisect import bisect_right

_COMPACT_ABOVE = 64  # evicted slots are dropped together, so that an eviction costs no move of the whole list


class TailCache:
    """Chunks one after the other, the last one ending at `end`."""

    __slots__ = ("_chunks", "_first", "_starts", "cap_bytes", "end", "start")

    def __init__(self, position: int, cap_bytes: int) -> None:
        self.cap_bytes = cap_bytes  # replaced on a change of settings
        self.start = self.end = position
        self._chunks: list[bytes] = []
        self._starts: list[int] = []  # positions of the chunks
        self._first = 0  # slot of the oldest chunk still held

    def push(self, chunk: bytes) -> None:
        """Add an append at the end; `evict` follows once it is written."""
        self._chunks.append(chunk)
        self._starts.append(self.end)
        self.end += len(chunk)

    def evict(self, written: int) -> None:
        """Drop the oldest chunks while the window is above the cap, but neither the newest nor one beyond `written`."""
        starts, first, last = self._starts, self._first, len(self._starts) - 1
        while self.end - self.start > self.cap_bytes and first < last and starts[first + 1] <= written:
            self._chunks[first] = b""
            first += 1
            self.start = starts[first]
        self._first = first
        if first > _COMPACT_ABOVE and first * 2 > last:
            del self._chunks[:first], starts[:first]
            self._first = 0

    def covers(self, position: int, end: int) -> bool:
        """Tell whether [position, end) lies wholly inside the window."""
        return self.start <= position and end <= self.end

    def parts(self, position: int, end: int) -> list[memoryview]:
        """Return [position, end) in pieces, without a copy."""
        assert self.covers(position, end), (position, end, self)
        found = []
        at = bisect_right(self._starts, position, self._first) - 1
        while position < end:
            chunk, start = self._chunks[at], self._starts[at]
            piece = memoryview(chunk)[position - start : end - start]
            found.append(piece)
            position += len(piece)
            at += 1
        return found

    def read(self, position: int, end: int) -> bytes:
        """Return the bytes [position, end)."""
        return b"".join(self.parts(position, end))

    def truncate(self, size: int) -> None:
        """Let the window end at `size`; one that began later is empty and starts there."""
        if size <= self.start:
            self._chunks.clear()
            self._starts.clear()
            self._first = 0
            self.start = self.end = size
            return
        while size <= self._starts[-1]:
            del self._chunks[-1], self._starts[-1]
        self._chunks[-1] = self._chunks[-1][: size - self._starts[-1]]
        self.end = size

    def __repr__(self) -> str:
        return f"TailCache([{self.start}, {self.end}), cap={self.cap_bytes})"
