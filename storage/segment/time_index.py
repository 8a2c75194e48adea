"""The `.timeindex`: timestamp i64, relative offset i32; an entry says that no record up to the offset is newer.

Timestamps ascend strictly, offsets do not descend. Source: Kafka's TimeIndex.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from storage.env.fs import FileSystem
from storage.errors import CorruptIndex
from storage.segment.index_file import IndexFile

ENTRY: Final = Struct(">qi")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_OFFSET_AT: Final = 8
NO_TIMESTAMP: Final = -1


class TimeIndex:
    """Sparse map largest timestamp so far → offset of the batch that set it."""

    __slots__ = ("base_offset", "file", "last_offset", "last_timestamp")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = IndexFile(fs, path, entry_size=ENTRY.size, max_bytes=max_bytes)
        self.last_timestamp = NO_TIMESTAMP  # of the last entry
        self.last_offset = base_offset  # of the last entry

    def load(self, size_bytes: int) -> None:
        """Take over an existing trimmed file. Raises: CorruptIndex."""
        self.file.load(size_bytes)
        self._reload_last()

    def check(self) -> None:
        """Verify what is cheap to verify. Raises: CorruptIndex."""
        if self.file.count == 0:
            return
        first, _ = self.entry(0)
        is_ascending = self.file.count == 1 or first < self.last_timestamp  # unlike zeros of a lost trim
        if first < 0 or self.last_offset < self.base_offset or not is_ascending:
            raise CorruptIndex(self.file.path, f"last entry {self.last_timestamp}, {self.last_offset} is out of order")

    @property
    def is_blank(self) -> bool:
        """Tell whether nothing is in it but an entry of zeros: one that says 1970, or a file that lost its content."""
        return self.file.count == 1 and self.last_timestamp == 0 and self.last_offset == self.base_offset

    def maybe_append(self, timestamp: int, offset: int, *, is_final: bool = False) -> None:
        """Add an entry if the timestamp is newer; the slot that is_final may use is kept free by the roll rule."""
        if timestamp <= self.last_timestamp or (self.file.is_full() and not is_final):
            return
        if self.file.count and offset < self.last_offset:
            raise CorruptIndex(self.file.path, f"offset {offset} is below {self.last_offset}")
        self.file.append_entries(ENTRY.pack(timestamp, offset - self.base_offset))
        self.last_timestamp = timestamp
        self.last_offset = offset

    def extend(self, entries: Sequence[tuple[int, int]]) -> None:
        """Add (timestamp, offset) entries with one write; timestamps must ascend, and be newer than the last one."""
        if not entries:
            return
        if self.file.count and entries[0][1] < self.last_offset:
            raise CorruptIndex(self.file.path, f"offset {entries[0][1]} is below {self.last_offset}")
        base = self.base_offset
        self.file.append_entries(b"".join([ENTRY.pack(timestamp, offset - base) for timestamp, offset in entries]))
        self.last_timestamp, self.last_offset = entries[-1]

    def is_full_for_roll(self) -> bool:
        """Tell whether only the slot for the entry written at roll is left."""
        return self.file.count >= self.file.max_entries - 1

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return (timestamp, offset) of the last entry that is not newer; (-1, base offset) when there is none."""
        slot = self.file.floor_slot(_INT64, 0, timestamp)
        return self.entry(slot) if slot >= 0 else (NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> tuple[int, int]:
        """Return (timestamp, offset) of one entry."""
        timestamp, relative = ENTRY.unpack(self.file.entries(slot, 1))
        return timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is at or above `offset`."""
        self.file.keep(self.file.floor_slot(_INT32, _OFFSET_AT, offset - 1 - self.base_offset) + 1)
        self._reload_last()

    def replace(self, entries: bytes | bytearray) -> None:
        """Make these the only entries."""
        self.file.replace(entries)
        timestamp, relative = ENTRY.unpack_from(entries, len(entries) - ENTRY.size) if entries else (NO_TIMESTAMP, 0)
        self.last_timestamp, self.last_offset = timestamp, self.base_offset + relative

    def _reload_last(self) -> None:
        count = self.file.count
        self.last_timestamp, self.last_offset = self.entry(count - 1) if count else (NO_TIMESTAMP, self.base_offset)
