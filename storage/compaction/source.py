"""Reading a source segment of a cleaning, window by window; a batch larger than the window widens it."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator

from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from protocol.records.errors import CorruptBatch
from storage.compaction.task import SourceSegment
from storage.env.fs import FileSystem
from storage.segment.log_file import has_valid_crc, parse_any_header
from storage.segment.names import LOG_SUFFIX, segment_file

FoundBatch = tuple[bytes, int, int, BatchHeader]
"""(window, start, end, header): the batch is window[start:end]. The window is the same object for neighbours."""


class SourceLog:
    """The batches of one sealed segment."""

    __slots__ = ("_end_offset", "_file", "_on_read", "_size", "_window_bytes", "path")

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        source: SourceSegment,
        *,
        end_offset: int,
        window_bytes: int,
        on_read: Callable[[int], None],
    ) -> None:
        self.path = os.path.join(directory, segment_file(source.base_offset, LOG_SUFFIX))
        self._size = source.log_bytes
        self._end_offset = end_offset  # where the next segment begins
        self._window_bytes = max(window_bytes, HEADER_SIZE)
        self._on_read = on_read
        self._file = fs.open(self.path, writable=False)

    def batches(self, position: int = 0) -> Iterator[FoundBatch]:
        """Walk every batch from `position` to the end. Raises: CorruptBatch for anything but whole, valid batches.

        The checksum is verified: a rewrite would otherwise give damaged records a right one. So are the offsets, which
        it does not cover. Blocking: disk.
        """
        needed = self._window_bytes
        last_offset, end_offset = -1, self._end_offset
        while position < self._size:
            wanted = min(needed, self._size - position)
            window = self._file.read_at(wanted, position)
            if len(window) != wanted:
                raise CorruptBatch(f"{self.path} ends at {position + len(window)} instead of {self._size}")
            view = memoryview(window)
            at = 0
            while at < wanted:
                if wanted - at < HEADER_SIZE and position + wanted < self._size:
                    break
                header = parse_any_header(window, at)
                end = at + header[1] + LOG_OVERHEAD
                if end > wanted:
                    needed = max(needed, end - at)
                    break
                if not has_valid_crc(header, view[at:end]):
                    raise CorruptBatch(f"wrong checksum of the batch at {position + at} of {self.path}")
                if not last_offset < header[0] + header[6] < end_offset:
                    raise CorruptBatch(
                        f"the batch at {position + at} of {self.path} ends at offset {header.last_offset}"
                    )
                last_offset = header[0] + header[6]
                yield window, at, end, header
                at = end
            if at == 0 and (needed <= wanted or position + needed > self._size):
                raise CorruptBatch(f"the batch at {position} of {self.path} ends beyond the segment")
            if at:
                position += at
                self._on_read(at)

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()
