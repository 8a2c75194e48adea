"""The walk over a `.log` or a metadata snapshot that nobody owns: every batch that its lengths lead to, good or bad.

Windows of a MiB are read one after the other into one buffer. A batch that is longer gets memory of its own up to a
bound; above that it is checked piece by piece and its bytes are not given. Nothing a file says can cost more than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from protocol.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, MIN_LEGACY_LENGTH, BatchHeader
from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch
from storage.env.fs import File, FileSystem
from storage.segment.log_file import MIN_LEGACY_SIZE, has_valid_crc, parse_any_header

_INT32 = Struct(">i")
_LENGTH_AT = 8

WINDOW_BYTES = 1 << 20
LOOK_BYTES = 1 << 13
"""The window of who looks at few batches only."""
MAX_HELD_BYTES = 128 << 20
"""Of one batch as it is stored, and of its records once inflated."""


class StoredBatch(NamedTuple):
    """A batch as it lies in the file."""

    position: int
    header: BatchHeader
    data: memoryview | None
    """All of its bytes, until the next batch is asked for; None when they are too many to be held."""
    is_valid: bool
    """Its checksum holds."""


class BatchFile:
    """One file of batches. Iterate once; what ended the walk is known afterwards."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        start: int = 0,
        end: int | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        """Walk [start, end) of the file; start is where a batch begins. Raises: OSError."""
        self._file: File = fs.open(path, writable=False)
        self._window_bytes = window_bytes
        self.path = path
        self.size = self._file.size()
        self._limit = self.size if end is None else min(end, self.size)
        # Where the last whole batch ends.
        self.end = start
        # Why the walk ended before the limit; "" if it did not.
        self.damage = ""
        # Whether that is a batch that was not written to its end; a walk may end for worse reasons.
        self.is_torn = False

    def __iter__(self) -> Iterator[StoredBatch]:
        """Yield the batches. Raises: OSError."""
        buffer = memoryview(bytearray(min(self._window_bytes, max(self._limit - self.end, 0))))
        try:
            while self.end < self._limit and not self.damage:
                window = buffer[: self._limit - self.end]
                window = window[: self._file.read_into(window, self.end)]
                if not window:  # somebody cut the file meanwhile
                    return
                yield from self._walk(window)
        finally:
            self._file.close()

    def _walk(self, window: memoryview) -> Iterator[StoredBatch]:
        """Yield the batches that a window begins with; one that it cuts only if it is the first."""
        start, at, size = self.end, 0, len(window)
        reaches_limit = start + size >= self._limit
        while at < size:
            if size - at < HEADER_SIZE and not reaches_limit and at:
                return
            try:
                header = parse_any_header(window, at)
            except CorruptBatch as error:
                self.damage = str(error)
                self.is_torn = _ends_too_early(window[at:])
                return
            length = header.batch_length + LOG_OVERHEAD
            following = at + length
            if start + following > self._limit:
                self.damage = f"a batch of {length} bytes is cut after {self._limit - start - at}"
                self.is_torn = True
                return
            if following > size:
                if at:
                    return
                yield self._long_batch(header, window)
                self.end = start + length
                return
            batch = window[at:following]
            yield StoredBatch(start + at, header, batch, has_valid_crc(header, batch))
            at = following
            self.end = start + at

    def _long_batch(self, header: BatchHeader, window: memoryview) -> StoredBatch:
        length = header.batch_length + LOG_OVERHEAD
        if length <= MAX_HELD_BYTES or header.magic != MAGIC_V2:
            data = memoryview(self._file.read_at(min(length, MAX_HELD_BYTES), self.end))
            is_whole = len(data) == length
            return StoredBatch(self.end, header, data if is_whole else None, is_whole and has_valid_crc(header, data))
        crc, read = crc32c(window[CRC_START:]), len(window)
        rest = memoryview(bytearray(WINDOW_BYTES))
        while read < length:
            got = self._file.read_into(rest[: length - read], self.end + read)
            if not got:
                break
            crc, read = crc32c(rest[:got], crc), read + got
        return StoredBatch(self.end, header, None, crc == header.crc)

    def is_zero_from_end(self, fs: FileSystem) -> bool:
        """Tell whether only zeros follow the last whole batch, as preallocation leaves them."""
        file = fs.open(self.path, writable=False)
        try:
            position, zeros = self.end, bytes(WINDOW_BYTES)
            while piece := file.read_at(WINDOW_BYTES, position):
                if piece != zeros[: len(piece)]:
                    return False
                position += len(piece)
            return True
        finally:
            file.close()


def _ends_too_early(rest: memoryview) -> bool:
    """Tell of what is no header whether it is the beginning of one, as far as its bytes go."""
    if len(rest) < MIN_LEGACY_SIZE:
        return True
    (length,) = _INT32.unpack_from(rest, _LENGTH_AT)
    return len(rest) < HEADER_SIZE and length >= MIN_LEGACY_LENGTH and LOG_OVERHEAD + length > len(rest)
