"""Memory for writes past the page cache, which O_DIRECT wants aligned."""

from __future__ import annotations

import mmap

WRITE_STEP_BYTES = 1 << 20  # one direct write: long enough for a disk's full speed, short enough to keep a few around
_SPARE_BUFFERS = 4  # as many as an I/O pool has threads


class AlignedBuffers:
    """Page-aligned memory for direct writes, lent to one writer at a time; any thread may ask."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: list[memoryview] = []  # append and pop are atomic

    def take(self) -> memoryview:
        """Lend WRITE_STEP_BYTES of memory."""
        try:
            return self._spare.pop()
        except IndexError:
            return memoryview(mmap.mmap(-1, WRITE_STEP_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give_back(self, memory: memoryview) -> None:
        """Take memory back; more than a few are given to the system instead."""
        if len(self._spare) < _SPARE_BUFFERS:
            self._spare.append(memory)
