"""A file of fixed-size, ascending entries: preallocate, append, trim, binary search.

The active segment's file has its full length from the start (a hole, no blocks) and is cut to its entries at roll and
close, so the entry count of an open file lives in memory. Entries are reached by positional reads, never by a mapping:
an I/O error stays an exception instead of a fatal signal, and pages of idle indexes never count as ours.

The newest entries of the active segment wait in memory until there are some dozens: each would cost a system call and a
change of the inode for a dozen bytes. They are written before the file is synced or trimmed, and read where they are:
who reads changes nothing. What a killed process takes along is made anew by the recovery that follows anyway.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from storage.env.fs import File, FileSystem
from storage.errors import CorruptIndex
from storage.segment.open_files import Counted

PAGE_ENTRIES: Final = 512  # the binary search ends with one read of at most this many entries
MAX_WAITING_ENTRIES: Final = 32


class IndexFile:
    """Entries of one kind. The descriptor is opened on first use and given back when the segment is sealed."""

    __slots__ = (
        "_file",
        "_fs",
        "_waiting",
        "count",
        "counted",
        "entry_size",
        "max_entries",
        "path",
        "writable",
    )

    def __init__(self, fs: FileSystem, path: str, *, entry_size: int, max_bytes: int) -> None:
        self._fs = fs
        self.path = path
        self.entry_size = entry_size
        self.max_entries = max_bytes // entry_size  # written by make_writable and make_room
        self.count = 0  # entries in use; written by every change below
        self._waiting = bytearray()  # the newest of them, which are not in the file yet
        self.writable = False  # true while the file has its full length
        self._file: File | None = None
        self.counted: Counted | None = None  # set once by Segment.count_in

    def load(self, size_bytes: int) -> None:
        """Take over an existing file of that length, all of it entries. Raises: CorruptIndex on a broken entry."""
        if size_bytes % self.entry_size:
            raise CorruptIndex(self.path, f"length {size_bytes} is not a multiple of {self.entry_size}")
        self.count = size_bytes // self.entry_size
        self._waiting.clear()
        self.writable = False

    @property
    def written_bytes(self) -> int:
        """Bytes of the entries that are in the file."""
        return self.count * self.entry_size - len(self._waiting)

    def make_writable(self, max_bytes: int) -> None:
        """Give the file its full length, creating it when missing; the hole behind the entries costs no blocks."""
        self.max_entries = max(max_bytes // self.entry_size, self.count, 1)
        self._open().truncate(self.max_entries * self.entry_size)
        self.writable = True

    def replace(self, entries: bytes | bytearray) -> None:
        """Make these the only entries; a file that holds exactly them is not written."""
        file = self._open()
        if file.size() != len(entries) or file.read_at(len(entries), 0) != entries:
            file.truncate(0)  # old bytes must not survive behind shorter content
            if entries:
                file.write_at(entries, 0)
        self._waiting.clear()
        self.count = len(entries) // self.entry_size
        self.writable = False

    def is_full(self) -> bool:
        """Tell whether another entry would not fit."""
        return self.count >= self.max_entries

    def make_room(self) -> None:
        """Let a trimmed file take one more entry."""
        self.max_entries = max(self.max_entries, self.count + 1)

    def append_entries(self, entries: bytes) -> None:
        """Put entries behind the others. Raises: CorruptIndex where they do not fit, which a roll must prevent."""
        count = len(entries) // self.entry_size
        if self.count + count > self.max_entries:
            raise CorruptIndex(self.path, f"all {self.max_entries} entries are in use")
        self._waiting += entries
        self.count += count
        if len(self._waiting) >= MAX_WAITING_ENTRIES * self.entry_size:
            self._write_waiting()

    def _write_waiting(self) -> File:
        """Write what waits; return the file."""
        file = self._open()
        if self._waiting:
            file.write_at(self._waiting, self.written_bytes)
            self._waiting.clear()
        return file

    def entries(self, first: int, count: int) -> bytes:
        """Return the bytes of `count` entries from slot `first`. Raises: CorruptIndex when the file is shorter."""
        start, size, written = first * self.entry_size, count * self.entry_size, self.written_bytes
        data = b""
        if start < written:
            data = self._open().read_at(min(size, written - start), start)
            start = written
        waiting = start - written
        data += self._waiting[waiting : waiting + size - len(data)]
        if len(data) != size:
            raise CorruptIndex(self.path, f"entries {first}..{first + count} are missing")
        return data

    def floor_slot(self, key: Struct, key_position: int, target: int) -> int:
        """Return the slot of the last entry whose key is <= target, or -1."""
        low, high, size = 0, self.count, self.entry_size
        while high - low > PAGE_ENTRIES:
            middle = (low + high) >> 1
            if key.unpack_from(self.entries(middle, 1), key_position)[0] <= target:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low - 1
        first = low
        page = self.entries(first, high - low)
        unpack = key.unpack_from
        while low < high:
            middle = (low + high) >> 1
            if unpack(page, (middle - first) * size + key_position)[0] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def keep(self, count: int) -> None:
        """Drop every entry from slot `count` on; a writable file keeps its full length, with zeros behind."""
        if count >= self.count:
            return
        written = self.written_bytes // self.entry_size
        del self._waiting[max(count - written, 0) * self.entry_size :]
        self.count = count
        if count < written:
            file = self._open()
            file.truncate(count * self.entry_size)
            if self.writable:
                file.truncate(self.max_entries * self.entry_size)

    def trim(self) -> None:
        """Cut the file to its entries."""
        if self.writable:
            self._write_waiting().truncate(self.count * self.entry_size)
            self.writable = False

    def sync(self) -> None:
        """Make the entries durable. Blocking: disk."""
        if self._file is not None or self._waiting:
            self._write_waiting().sync()

    def to_sync(self) -> File | None:
        """Return the open file for a flush that runs elsewhere; None when nothing was ever written."""
        return self._write_waiting() if self.count else self._file

    def close(self) -> None:
        """Trim and give the descriptor back; the next use opens it again."""
        self.trim()
        self._close_file()

    def open_to_read(self) -> None:
        """Open the existing file for reads only, of somebody who does not own it. Raises: OSError."""
        self._file = self._fs.open(self.path, writable=False)

    def release(self) -> None:
        """Give the descriptor back without trimming; what waits to be written goes on to."""
        self._close_file()

    def rename(self, path: str) -> None:
        """Follow a rename of the file or of its directory."""
        self.path = path

    def _open(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self.path, create=True)
            if self.counted is not None:
                self.counted.opened()
        return self._file

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
