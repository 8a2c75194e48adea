"""The `.index`: relative offset i32, position i32, ascending in both.

An entry names the last offset of a batch and the position where that batch starts. Lookup by offset gives a position
from which a scan forward finds the batch; lookup by position gives a batch boundary. Source: Kafka's OffsetIndex.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from storage.env.fs import FileSystem
from storage.errors import CorruptIndex
from storage.segment.index_file import PAGE_ENTRIES, IndexFile

ENTRY: Final = Struct(">ii")
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
"""How far above its segment's base an offset may lie."""
_INT32: Final = Struct(">i")
_POSITION_AT: Final = 4
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"


class _Page(NamedTuple):
    """Decoded neighbouring entries; sequential readers stay within one for megabytes of log."""

    first_slot: int
    offsets: array[int]
    positions: array[int]


class OffsetIndex:
    """Sparse map offset → position of one segment."""

    __slots__ = ("_page", "base_offset", "file", "last_offset")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = IndexFile(fs, path, entry_size=ENTRY.size, max_bytes=max_bytes)
        self.last_offset = base_offset  # of the last entry; base offset when there is none
        self._page: _Page | None = None  # the page last looked at; dropped when entries are removed

    def load(self, size_bytes: int) -> None:
        """Take over an existing trimmed file. Raises: CorruptIndex."""
        self.file.load(size_bytes)
        self._reload_last()

    def check(self, log_size: int) -> None:
        """Verify what is cheap to verify. Raises: CorruptIndex when the last entry cannot belong to this segment."""
        if self.file.count == 0:
            return
        relative, position = ENTRY.unpack(self.file.entries(self.file.count - 1, 1))
        if relative <= 0:
            raise CorruptIndex(self.file.path, f"last offset {self.base_offset + relative} is not above the base")
        if not 0 <= position < log_size:
            raise CorruptIndex(self.file.path, f"position {position} is outside a log of {log_size} bytes")

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets must ascend."""
        if self.file.count and offset <= self.last_offset:
            raise CorruptIndex(self.file.path, f"offset {offset} is not above {self.last_offset}")
        self.file.append_entries(ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset

    def extend(self, entries: Sequence[tuple[int, int]]) -> None:
        """Add (offset, position) entries with one write; offsets must ascend."""
        if not entries:
            return
        if self.file.count and entries[0][0] <= self.last_offset:
            raise CorruptIndex(self.file.path, f"offset {entries[0][0]} is not above {self.last_offset}")
        base = self.base_offset
        self.file.append_entries(b"".join([ENTRY.pack(offset - base, position) for offset, position in entries]))
        self.last_offset = entries[-1][0]

    def lookup(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`."""
        relative = offset - self.base_offset
        page = self._page
        if page is None or not _covers(page, page.offsets, relative, self.file.count):
            page = self._load_page(0, relative)
        slot = bisect_right(page.offsets, relative) - 1
        return page.positions[slot] if slot >= 0 else 0

    def boundary_at_or_before(self, position: int) -> int:
        """Return the largest indexed batch start that is <= position; 0 when there is none."""
        page = self._page
        if page is None or not _covers(page, page.positions, position, self.file.count):
            page = self._load_page(_POSITION_AT, position)
        slot = bisect_right(page.positions, position) - 1
        return page.positions[slot] if slot >= 0 else 0

    def _load_page(self, column_at: int, target: int) -> _Page:
        """Read the page whose first key in the column is the last one <= target, and keep it decoded."""
        low, high = 0, (self.file.count - 1) // PAGE_ENTRIES
        while low < high:
            middle = (low + high + 1) >> 1
            if _INT32.unpack_from(self.file.entries(middle * PAGE_ENTRIES, 1), column_at)[0] <= target:
                low = middle
            else:
                high = middle - 1
        first = max(low, 0) * PAGE_ENTRIES
        values = array("i", self.file.entries(first, min(PAGE_ENTRIES, self.file.count - first)))
        if _IS_LITTLE_ENDIAN:
            values.byteswap()
        self._page = page = _Page(first, values[::2], values[1::2])
        return page

    def entry(self, slot: int) -> tuple[int, int]:
        """Return (offset, position) of one entry."""
        relative, position = ENTRY.unpack(self.file.entries(slot, 1))
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or above `offset`."""
        self.file.keep(self.file.floor_slot(_INT32, 0, offset - 1 - self.base_offset) + 1)
        self._reload_last()

    def replace(self, entries: bytes | bytearray) -> None:
        """Make these the only entries."""
        self.file.replace(entries)
        self._page = None
        relative = ENTRY.unpack_from(entries, len(entries) - ENTRY.size)[0] if entries else 0
        self.last_offset = self.base_offset + relative

    def forget_page(self) -> None:
        """Give the memory of the decoded page back."""
        self._page = None

    def _reload_last(self) -> None:
        self._page = None
        count = self.file.count
        self.last_offset = self.entry(count - 1)[0] if count else self.base_offset


def _covers(page: _Page, column: array[int], target: int, count: int) -> bool:
    """Tell whether the last entry <= target is known to lie in the page."""
    if not column:
        return count == 0
    if target < column[0]:
        return page.first_slot == 0
    return target < column[-1] or page.first_slot + len(column) == count
