"""The `.log`: batches one after the other, no file header.

Its logical size lives in memory: a preallocated file is longer than its batches, and nothing beyond the logical size is
ever read. Walks are forward only and read in windows, so that small batches do not cost a system call each.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from crc32c import crc32c

from protocol.records.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
    BatchHeader,
    header_from,
)
from protocol.records.errors import CorruptBatch
from storage.env.fs import Buffer, File, FileSystem
from storage.segment.region import FileRegion

HEADER_WINDOW_BYTES = 8192  # two index intervals: one read usually ends a walk that an index entry began
BATCH_WINDOW_BYTES = 1 << 20  # recovery and replay read whole batches

_WALK = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_LEGACY_HEAD = Struct(">qiIbb")  # offset, size, crc, magic, attributes
_INT64 = Struct(">q")
_LEGACY_TIMESTAMP_AT = 18
_LEGACY_CRC_START = 16
_MIN_LEGACY_SIZE = LOG_OVERHEAD + MIN_LEGACY_LENGTH


class LogFile:
    """One `.log` file; the descriptor is opened on first use."""

    __slots__ = ("_fs", "file", "path", "size")

    def __init__(self, fs: FileSystem, path: str, size: int = 0) -> None:
        self._fs = fs
        self.path = path
        self.size = size  # logical end; written by append and truncate
        self.file: File | None = None  # open while in use

    def open(self, *, create: bool = False) -> File:
        """Return the open file, opening it when needed."""
        if self.file is None:
            self.file = self._fs.open(self.path, create=create)
        return self.file

    def append(self, data: Buffer) -> int:
        """Write `data` at the logical end and return where it begins. On failure the logical end has not moved."""
        position = self.size
        (self.file or self.open()).write_at(data, position)
        self.size = position + len(data)
        return position

    def region(self, position: int, end: int) -> FileRegion:
        """Pin the bytes [position, end)."""
        assert 0 <= position <= end <= self.size, (position, end, self.size)
        return FileRegion(self.file or self.open(), position, end - position)

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes, none beyond the logical end."""
        return (self.file or self.open()).read_at(min(size, self.size - position), position)

    def find_batch(self, offset: int, position: int) -> int | None:
        """Return the position of the first batch from `position` on whose last offset is >= offset.

        Raises: CorruptBatch on an impossible length.
        """
        end = self.size
        unpack = _WALK.unpack_from
        while position < end:
            window = self.read(position, HEADER_WINDOW_BYTES)
            if len(window) < HEADER_SIZE:
                if len(window) < _MIN_LEGACY_SIZE:
                    return None
                window += bytes(HEADER_SIZE)  # a legacy message may be shorter than what is unpacked
            at, limit = 0, len(window) - _WALK.size
            while at <= limit and position + at < end:
                base_offset, length, magic, delta = unpack(window, at)
                if (base_offset + delta if magic >= MAGIC_V2 else base_offset) >= offset:
                    return position + at
                if length < MIN_LEGACY_LENGTH:
                    raise CorruptBatch(f"batch length {length} at {position + at} of {self.path}")
                at += length + LOG_OVERHEAD
            position += at
        return None

    def end_of_batches(self, position: int, limit: int) -> tuple[int, int]:
        """Return (end of the first batch, end of the last batch that ends at or before `limit`) from `position`.

        The second is `position` when not even the first batch fits.
        """
        first_end = fitting_end = position
        while fitting_end < self.size:
            window = self.read(fitting_end, HEADER_WINDOW_BYTES)
            at = 0
            while at + LOG_OVERHEAD <= len(window):
                length = int.from_bytes(window[at + 8 : at + 12], "big", signed=True)
                if length < MIN_LEGACY_LENGTH:
                    raise CorruptBatch(f"batch length {length} at {fitting_end + at} of {self.path}")
                following = fitting_end + at + length + LOG_OVERHEAD
                if first_end == position:
                    first_end = following
                if following > limit:
                    return first_end, fitting_end + at
                at += length + LOG_OVERHEAD
            if at == 0:
                break
            fitting_end += at
        return first_end, min(fitting_end, self.size)

    def base_offset_at(self, position: int) -> int:
        """Return the offset field of the batch that starts at `position`."""
        offset: int = _INT64.unpack(self.read(position, 8))[0]
        return offset

    def header_at(self, position: int) -> BatchHeader:
        """Parse the batch header at `position`, of any format. Raises: CorruptBatch."""
        return parse_any_header(self.read(position, HEADER_SIZE), 0)

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Walk (position, header) of the complete batches from `position`. Raises: CorruptBatch."""
        end = self.size
        while position < end:
            window = self.read(position, HEADER_WINDOW_BYTES)
            at = 0
            while at < len(window):
                if len(window) - at < HEADER_SIZE and position + len(window) < end:
                    break  # the header may be cut by the window; read on from it
                header = parse_any_header(window, at)
                following = position + at + header.batch_length + LOG_OVERHEAD
                if following > end:
                    return
                yield position + at, header
                at += header.batch_length + LOG_OVERHEAD
            position += at

    def batches(self, position: int = 0, *, window_bytes: int = BATCH_WINDOW_BYTES) -> Iterator[ScannedBatch]:
        """Walk (position, header, bytes) of the complete batches from `position`. Raises: CorruptBatch.

        The views stay valid as long as they are referenced. Blocking: disk.
        """
        end = self.size
        needed = window_bytes
        while position < end:
            window = memoryview(self.read(position, max(needed, window_bytes)))
            needed = window_bytes
            at, limit = 0, len(window)
            while at < limit:
                if limit - at < HEADER_SIZE and position + limit < end:
                    break
                header = parse_any_header(window, at)
                following = at + header[1] + LOG_OVERHEAD
                if following > limit:
                    if position + following > end:
                        return
                    needed = following - at
                    break
                yield position + at, header, window[at:following]
                at = following
            if at == 0 and needed <= limit:
                return
            position += at

    def truncate(self, size: int) -> None:
        """Move the logical and the physical end to `size`."""
        self.open().truncate(size)
        self.size = size

    def close(self) -> None:
        """Give the descriptor back once no region pins it."""
        if self.file is not None:
            self.file.close()
            self.file = None


ScannedBatch = tuple[int, BatchHeader, memoryview]


def parse_any_header(buffer: Buffer, position: int) -> BatchHeader:
    """Parse a v2 header, or present a legacy message as a batch whose base offset is its (last) offset.

    Raises: CorruptBatch when too few bytes are left or a length is impossible.
    """
    if len(buffer) - position >= HEADER_SIZE:
        header = header_from(HEADER.unpack_from(buffer, position))
        if header[3] == MAGIC_V2 and header[1] >= MIN_BATCH_LENGTH:
            return header
    if len(buffer) - position < _MIN_LEGACY_SIZE:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too few for a batch")
    offset, length, crc, magic, attributes = _LEGACY_HEAD.unpack_from(buffer, position)
    if length < MIN_LEGACY_LENGTH or not 0 <= magic < MAGIC_V2:
        raise CorruptBatch(f"batch length {length}, magic {magic}")
    timestamp = -1
    if magic == 1 and len(buffer) - position >= _LEGACY_TIMESTAMP_AT + 8:
        timestamp = _INT64.unpack_from(buffer, position + _LEGACY_TIMESTAMP_AT)[0]
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, 1)


def has_valid_crc(header: BatchHeader, batch: memoryview) -> bool:
    """Tell whether the whole batch or legacy message carries its checksum."""
    if header[3] == MAGIC_V2:
        return crc32c(batch[CRC_START:]) == header[4]
    return crc32(batch[_LEGACY_CRC_START:]) == header.crc
