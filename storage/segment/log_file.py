"""The `.log`: batches one after the other, no file header.

Its logical size lives in memory: a preallocated file may be longer than its batches, and nothing beyond the logical
size is ever read. Walks are forward only and read in windows, so that small batches do not cost a system call each.

A file with an allocation has space reserved before its first append and is written past the page cache where the file
system can do that (see direct_tail); reads, syncs and truncations always use the buffered handle.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from protocol.records.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
    BatchHeader,
    header_from,
)
from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch
from storage.env.fs import Buffer, DirectFile, File, FileSystem
from storage.errors import DISK_FAULTS
from storage.segment.direct_tail import DirectTail, DirectWrite, reserve
from storage.segment.open_files import Counted
from storage.segment.region import FileRegion, MemoryRegion, Region

HEADER_WINDOW_BYTES: Final = 8192  # two index intervals: one read usually ends a walk that an index entry began
BATCH_WINDOW_BYTES: Final = 1 << 20  # recovery and replay read whole batches

logger: Final = logging.getLogger(__name__)

_WALK: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_LEGACY_HEAD: Final = Struct(">qiIbb")  # offset, size, crc, magic, attributes
_INT64: Final = Struct(">q")
_LEGACY_TIMESTAMP_AT: Final = 18
_LEGACY_CRC_START: Final = 16
MIN_LEGACY_SIZE: Final = LOG_OVERHEAD + MIN_LEGACY_LENGTH


class Allocation(NamedTuple):
    """What a preallocated `.log` gets: space on disk, and how much of its end stays in memory."""

    reserve_bytes: int
    cache_bytes: int


class WriteQueue:
    """The `.log` files of one log that have bytes in memory only, oldest first: they are written in this order."""

    __slots__ = ("files", "is_deferred", "written_end_offset")

    def __init__(self) -> None:
        self.is_deferred = False  # set by an owner that runs the plans; else every append is written at once
        self.files: list[LogFile] = []  # a few at most, mostly none; written by the files themselves
        self.written_end_offset = 0  # while there are files: what lies below is in them; written by log.direct_writes


class Writer(Protocol):
    """Takes the bytes of an append; `position` is the logical end."""

    def write_at(self, data: Buffer, position: int) -> None:
        """Write or take all of `data`, or raise."""
        ...


class LogFile:
    """One `.log` file; the descriptors are opened on first use."""

    __slots__ = (
        "_fs",
        "_is_reserved",
        "_queue",
        "allocation",
        "counted",
        "file",
        "path",
        "size",
        "tail",
        "writer",
    )

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        size: int = 0,
        allocation: Allocation | None = None,
        queue: WriteQueue | None = None,
    ) -> None:
        self._fs = fs
        self._queue = queue or WriteQueue()
        self.path = path
        self.size = size  # logical end; written by append and truncate
        self.allocation = allocation  # replaced by allocate
        self.file: File | None = None  # open while in use
        self.writer: Writer | None = None  # who takes the appends: the file, or this object for its tail
        self.tail: DirectTail | None = None  # set while the file is written past the page cache
        self._is_reserved = False  # space was reserved that a cut gives back
        self.counted: Counted | None = None  # set once by Segment.count_in

    def open(self, *, create: bool = False) -> File:
        """Return the open file, opening it when needed."""
        if self.file is None:
            self.file = self._fs.open(self.path, create=create)
            if self.counted is not None:
                self.counted.opened()
        return self.file

    @property
    def is_direct(self) -> bool:
        """Tell whether appends go past the page cache; known once there was one."""
        return self.tail is not None

    @property
    def written_bytes(self) -> int:
        """Bytes of batches that are in the file, not in memory only."""
        return self.size if self.tail is None else self.tail.written

    # --- append ---

    def append(self, data: Buffer) -> int:
        """Write `data` at the logical end and return where it begins. On failure the logical end has not moved."""
        position = self.size
        (self.writer or self.open_writer()).write_at(data, position)
        self.size = position + len(data)
        return position

    def open_writer(self) -> Writer:
        """Decide who takes the appends, before the first one after opening. Raises: OSError."""
        file = self.open()
        self.writer = file
        if self.allocation is not None:
            self._is_reserved = True
            reserve_bytes, cache_bytes = self.allocation
            direct = self._open_direct()
            if direct is not None:
                self.tail = DirectTail(file, direct, self.size, reserve_bytes=reserve_bytes, cache_bytes=cache_bytes)
                self.writer = self
            else:
                reserve(file, reserve_bytes)
        return self.writer

    def _open_direct(self) -> DirectFile | None:
        try:
            return self._fs.open_direct(self.path)
        except OSError as error:
            if error.errno in DISK_FAULTS:
                raise
            logger.warning("a log stays on the page cache path=%s reason=%s", self.path, error)
            return None

    def write_at(self, data: Buffer, position: int) -> None:
        """Write past the page cache, or let it be written by a plan."""
        tail, queue = self.tail, self._queue
        assert tail is not None and tail.cache.end == position, (self, position)
        if not queue.is_deferred:
            tail.append(data)
            return
        tail.take(data)
        self._enqueue()

    def _enqueue(self) -> None:
        if self not in self._queue.files:
            self._queue.files.append(self)

    def note_written(self, write: DirectWrite) -> None:
        """Take note of a write that ran well; a file that is being left is left once all of it is written."""
        tail = self.tail
        if tail is None:
            write.release()  # the file was closed meanwhile
            return
        tail.note_written(write)
        if not tail.has_unwritten:
            if write.cuts:
                self._leave()
            elif not tail.is_leaving:
                self._dequeue()

    def _dequeue(self) -> None:
        if self in self._queue.files:
            self._queue.files.remove(self)

    def allocate(self, allocation: Allocation | None) -> None:
        """Follow a change of settings from the next append on. Raises: OSError. Blocking: disk."""
        if allocation == self.allocation:
            return
        was_allocated = self.allocation is not None
        self.allocation = allocation
        if allocation is None:
            self.trim()
        elif self.tail is not None:
            self.tail.is_leaving = False
            self.tail.cache.cap_bytes = allocation.cache_bytes
            self.tail.cache.evict(self.tail.written)
            if not self.tail.has_unwritten:
                self._dequeue()
        elif not was_allocated:
            self.writer = None

    def trim(self) -> None:
        """Cut a preallocated file to its batches; appends, if any follow, go through the page cache.

        What is not written yet is written first, by a plan. Raises: OSError. Blocking: disk.
        """
        tail = self.tail
        if tail is not None and tail.has_unwritten:
            tail.is_leaving = True
            self._enqueue()
        elif self._is_reserved:
            self.open().truncate(self.size)
            self._leave()

    def _leave(self) -> None:
        if self.tail is not None:
            self.tail.close()
        self.tail = self.writer = None
        self._is_reserved = False
        self._dequeue()

    # --- read ---

    def region(self, position: int, end: int) -> Region:
        """Give the bytes [position, end): pinned in the file, or from memory if all of them are there."""
        assert 0 <= position <= end <= self.size, (position, end, self.size)
        tail = self.tail
        if tail is not None and (position >= tail.cache.start or end > tail.written):
            return MemoryRegion(tail.read(position, end), position)
        return FileRegion(self.file or self.open(), position, end - position)

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes, none beyond the logical end."""
        size = min(size, self.size - position)
        if self.tail is not None:
            return self.tail.read(position, position + size)
        return (self.file or self.open()).read_at(size, position)

    def find_batch(self, offset: int, position: int) -> int | None:
        """Return the position of the first batch from `position` on whose last offset is >= offset.

        Raises: CorruptBatch on an impossible length.
        """
        end = self.size
        unpack = _WALK.unpack_from
        while position < end:
            window = self.read(position, HEADER_WINDOW_BYTES)
            if len(window) < HEADER_SIZE:
                if len(window) < MIN_LEGACY_SIZE:
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
        tail = self.tail
        if tail is None:
            self.open().truncate(size)
        elif not tail.drop_unwritten(size):
            self.open().truncate(size)
            tail.rewind(size)
        self.size = size
        if tail is not None and not self.is_waiting:
            self._dequeue()

    def close(self) -> None:
        """Give the descriptors back once no region and no write pins them; what is not written is forgotten."""
        if self.tail is not None:
            self.tail.close()
            self._dequeue()
        self.tail = self.writer = None
        if self.file is not None:
            self.file.close()
            self.file = None
        self.count_out()

    def count_out(self) -> None:
        """Let the segment count as one without open files, unless the `.log` is open."""
        if self.file is None and self.counted is not None:
            self.counted.closed()

    @property
    def is_waiting(self) -> bool:
        """Tell whether a plan has something to write or to cut here."""
        return self.tail is not None and (self.tail.has_unwritten or self.tail.is_leaving)


ScannedBatch = tuple[int, BatchHeader, memoryview]


def parse_any_header(buffer: Buffer, position: int) -> BatchHeader:
    """Parse a v2 header, or present a legacy message as a batch whose base offset is its (last) offset.

    Raises: CorruptBatch when too few bytes are left or a length is impossible.
    """
    if len(buffer) - position >= HEADER_SIZE:
        header = header_from(HEADER.unpack_from(buffer, position))
        if header[3] == MAGIC_V2 and header[1] >= MIN_BATCH_LENGTH:
            return header
    if len(buffer) - position < MIN_LEGACY_SIZE:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too few for a batch")
    offset, length, crc, magic, attributes = _LEGACY_HEAD.unpack_from(buffer, position)
    if length < MIN_LEGACY_LENGTH or not 0 <= magic < MAGIC_V2:
        raise CorruptBatch(f"batch length {length}, magic {magic}")
    timestamp = -1
    if magic == 1 and len(buffer) - position >= _LEGACY_TIMESTAMP_AT + 8:
        timestamp = _INT64.unpack_from(buffer, position + _LEGACY_TIMESTAMP_AT)[0]
    attributes &= CODEC_MASK | LOG_APPEND_TIME_BIT  # the other bits had no meaning yet
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, 1)


def has_valid_crc(header: BatchHeader, batch: memoryview) -> bool:
    """Tell whether the whole batch or legacy message carries its checksum."""
    if header[3] == MAGIC_V2:
        return crc32c(batch[CRC_START:]) == header[4]
    return crc32(batch[_LEGACY_CRC_START:]) == header.crc
