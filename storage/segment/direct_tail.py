"""The end of a `.log` that is written past the page cache (preallocate=true).

Direct writes cover whole blocks, so one writes [floor(written), ceil(end)): the partial last block, kept in memory,
then the new bytes, then zeros. The file may hence be longer than its batches by less than a block. Nothing beyond the
logical end is ever served, recovery cuts it, and seal, close and truncation drop it.

Appends are written at once or, when the log's owner asked for that, taken into the tail cache and written by a
DirectWrite that may run in any thread, one at a time; bytes not written yet are never evicted. A failed write changes
nothing here: the written end and the partial block are as before.
"""

from __future__ import annotations

import errno
import logging

from storage.env.fs import Buffer, DirectFile, File
from storage.segment.tail_cache import TailCache

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

logger = logging.getLogger(__name__)


class DirectWrite:
    """A write of everything that was appended so far; with `cuts`, the file then has its logical size."""

    __slots__ = ("_direct", "_file", "_parts", "_position", "_reserve_bytes", "cuts", "end", "is_refused", "partial")

    def __init__(self, tail: DirectTail, *, cuts: bool) -> None:
        cache, block_bytes = tail.cache, tail.block_bytes
        self.cuts = cuts
        self.end = end = cache.end
        self._direct, self._file = tail.direct, tail.file
        self._direct.pin()
        self._file.pin()
        self._reserve_bytes = tail.take_reservation()
        self.is_refused = False  # written by run: there is no space to reserve
        self._position = tail.written - len(tail.partial)
        self._parts: list[Buffer] = [tail.partial, *cache.parts(tail.written, end), bytes(-end % block_bytes)]
        floor = end - end % block_bytes
        before = b"" if floor >= tail.written else tail.partial
        self.partial = before + cache.read(max(floor, tail.written), end)

    def run(self) -> None:
        """Reserve, write, cut. Raises: OSError. Blocking: disk; any thread."""
        if self._reserve_bytes:
            self.is_refused = not reserve(self._file, self._reserve_bytes)
        self._direct.writev_at(self._parts, self._position)
        if self.cuts:
            self._file.truncate(self.end)

    def release(self) -> None:
        """Give the pins back, on the owner's side."""
        self._parts = []
        self._direct.unpin()
        self._file.unpin()


class DirectTail:
    """Where the direct writes of one file continue."""

    __slots__ = (
        "_running",
        "_unreserved_bytes",
        "block_bytes",
        "cache",
        "direct",
        "file",
        "is_leaving",
        "partial",
        "reserve_bytes",
        "written",
    )

    def __init__(self, file: File, direct: DirectFile, position: int, *, reserve_bytes: int, cache_bytes: int) -> None:
        self.file = file  # the buffered handle: reads, syncs and truncations
        self.direct = direct
        self.block_bytes = direct.block_bytes
        self.reserve_bytes = reserve_bytes  # 0 once refused: a segment asks once
        self.cache = TailCache(position, cache_bytes)  # its end is the logical end
        self.is_leaving = False  # written by LogFile: the file is to be cut and the tail given up once all is written
        self.written = 0  # the file holds [0, written); set by rewind, moved by note_written
        self.partial = b""  # the file's bytes [floor(written), written)
        self._unreserved_bytes = 0  # to be reserved by the next write
        self._running: DirectWrite | None = None
        self.rewind(position)

    @property
    def has_unwritten(self) -> bool:
        """Tell whether bytes are in memory only, or a write is running."""
        return self.cache.end > self.written or self._running is not None

    def rewind(self, size: int) -> None:
        """Continue at `size`, where the file now ends. Raises: OSError. Blocking: disk."""
        assert self._running is None, "a file is not truncated under a running write"
        at = size % self.block_bytes
        partial = self.file.read_at(at, size - at) if at else b""
        if len(partial) != at:
            raise OSError(errno.EIO, "a file is shorter than its batches", self.file.path)
        self.partial = partial
        self.written = size
        self.cache.truncate(size)
        self._unreserved_bytes = self.reserve_bytes

    def append(self, data: Buffer) -> None:
        """Write `data` at the end, here and now. Raises: OSError, with everything as before. Blocking: disk."""
        self.take(data)
        write = self.plan()
        assert write is not None, "a write is running"
        try:
            write.run()
        except OSError:
            self.note_failed(write)
            self.cache.truncate(self.written)
            raise
        self.note_written(write)

    def take(self, data: Buffer) -> None:
        """Take `data` at the end into memory; a plan writes it."""
        self.cache.push(bytes(data))

    def drop_unwritten(self, size: int) -> bool:
        """Cut back to `size` in memory if neither the file nor a running write goes beyond it; tell whether."""
        if size < self.written or (self._running is not None and size < self._running.end):
            return False
        self.cache.truncate(size)
        return True

    def plan(self) -> DirectWrite | None:
        """Return the next write, None when there is nothing to do or one is running."""
        if self._running is not None or not (self.is_leaving or self.cache.end > self.written):
            return None
        self._running = DirectWrite(self, cuts=self.is_leaving)
        return self._running

    def take_reservation(self) -> int:
        """Return how many bytes the next write reserves first: those of a new or a truncated file."""
        wanted, self._unreserved_bytes = self._unreserved_bytes, 0
        return wanted

    def note_written(self, write: DirectWrite) -> None:
        """Take note of a write that ran well."""
        write.release()
        self._running = None
        self.written = write.end
        self.partial = write.partial
        if write.is_refused:
            self.reserve_bytes = 0
        self.cache.evict(self.written)

    def note_failed(self, write: DirectWrite) -> None:
        """Give a failed write back."""
        write.release()
        self._running = None

    def read(self, position: int, end: int) -> bytes:
        """Return [position, end): from memory if all of it is there, else what is written from the file."""
        cache = self.cache
        if position >= cache.start:
            return cache.read(position, end)
        if end <= self.written:
            return self.file.read_at(end - position, position)
        return self.file.read_at(cache.start - position, position) + cache.read(cache.start, end)

    def close(self) -> None:
        """Give the direct handle back."""
        self.direct.close()


def reserve(file: File, size: int) -> bool:
    """Reserve disk blocks; tell whether it worked. A refusal is no error. Blocking: disk."""
    try:
        file.reserve(size)
    except OSError as error:
        level = logging.DEBUG if error.errno in _UNSUPPORTED else logging.WARNING
        logger.log(level, "no space is reserved path=%s bytes=%d reason=%s", file.path, size, error)
        return False
    return True
