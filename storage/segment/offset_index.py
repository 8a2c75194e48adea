"""The `.index`: relative offset i32, position i32, ascending in both.

An entry names the last offset of a batch and the position where that batch starts. Lookup by offset gives a position
from which a scan forward finds the batch; lookup by position gives a batch boundary. Source: Kafka's OffsetIndex.
"""

from __future__ import annotations

from struct import Struct

from storage.env.fs import FileSystem
from storage.errors import CorruptIndex
from storage.segment.index_file import IndexFile

ENTRY = Struct(">ii")
_INT32 = Struct(">i")
_POSITION_AT = 4


class OffsetIndex:
    """Sparse map offset → position of one segment."""

    __slots__ = ("base_offset", "file", "last_offset")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = IndexFile(fs, path, entry_size=ENTRY.size, max_bytes=max_bytes)
        self.last_offset = base_offset  # of the last entry; base offset when there is none

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
        self.file.append_entry(ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset

    def lookup(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`."""
        slot = self.file.floor_slot(_INT32, 0, offset - self.base_offset)
        if slot < 0:
            return 0
        position: int = _INT32.unpack_from(self.file.entries(slot, 1), _POSITION_AT)[0]
        return position

    def boundary_at_or_before(self, position: int) -> int:
        """Return the largest indexed batch start that is <= position; 0 when there is none."""
        slot = self.file.floor_slot(_INT32, _POSITION_AT, position)
        if slot < 0:
            return 0
        boundary: int = _INT32.unpack_from(self.file.entries(slot, 1), _POSITION_AT)[0]
        return boundary

    def entry(self, slot: int) -> tuple[int, int]:
        """Return (offset, position) of one entry."""
        relative, position = ENTRY.unpack(self.file.entries(slot, 1))
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or above `offset`."""
        self.file.keep(self.file.floor_slot(_INT32, 0, offset - 1 - self.base_offset) + 1)
        self._reload_last()

    def reset(self) -> None:
        """Forget every entry."""
        self.file.reset()
        self.last_offset = self.base_offset

    def _reload_last(self) -> None:
        count = self.file.count
        self.last_offset = self.entry(count - 1)[0] if count else self.base_offset
