"""The segment a cleaning writes: `.cleaned` files, complete and durable once `finish` returns.

Batches that stay as they are ride from the read window to the file in as long pieces as they lie there. The sparse
indexes grow in memory by the rule of an append and are written in one go.
"""

from __future__ import annotations

import os.path
from typing import Final

from storage.compaction.task import CleanedSegment, CleaningTask
from storage.env.fs import Buffer, FileSystem
from storage.segment.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_segment_file,
    segment_file,
)
from storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.time_index import ENTRY as TIME_ENTRY
from storage.segment.time_index import NO_TIMESTAMP
from storage.segment.txn_index import ENTRY as TXN_ENTRY
from storage.segment.txn_index import VERSION as TXN_VERSION
from storage.segment.txn_index import AbortedTxn

MAX_LOG_BYTES: Final = (1 << 31) - 1  # positions in an index are 32 bits
_MAX_PIECES: Final = 512
_MAX_PENDING_BYTES: Final = 1 << 20


class CleanedOutput:
    """One `.cleaned` segment while it is being written."""

    __slots__ = (
        "_bytes_since_index",
        "_copy_end",
        "_copy_start",
        "_directory",
        "_file",
        "_fs",
        "_index",
        "_interval",
        "_largest_timestamp",
        "_last_indexed_timestamp",
        "_max_index_entries",
        "_max_time_entries",
        "_offset_of_largest",
        "_pending",
        "_pending_bytes",
        "_time_index",
        "_txn_index",
        "_window",
        "_written",
        "base_offset",
        "next_offset",
        "size",
    )

    def __init__(self, fs: FileSystem, task: CleaningTask, base_offset: int) -> None:
        self._fs = fs
        self._directory = task.directory
        self.base_offset = base_offset
        self._interval = task.index_interval_bytes
        self._max_index_entries = task.segment_index_bytes // OFFSET_ENTRY.size
        self._max_time_entries = task.segment_index_bytes // TIME_ENTRY.size - 1  # one is kept for the final entry
        for kind in SEGMENT_SUFFIXES:
            fs.unlink(self._path(kind))
        self._file = fs.open(self._path(LOG_SUFFIX), create=True)
        self.next_offset = base_offset  # above the last batch
        self.size = 0  # bytes of batches, written or pending
        self._written = 0
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._window = b""  # the window whose bytes [copy start, copy end) are the next piece
        self._copy_start = self._copy_end = 0
        self._index = bytearray()
        self._time_index = bytearray()
        self._txn_index = bytearray()
        self._bytes_since_index = 0
        self._largest_timestamp = self._last_indexed_timestamp = NO_TIMESTAMP
        self._offset_of_largest = base_offset

    def has_room_for(self, size: int, last_offset: int) -> bool:
        """Tell whether the indexes can express `size` more bytes that end at last_offset."""
        return self.size + size <= MAX_LOG_BYTES and last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def base_of_next(self, last_offset: int) -> int:
        """Return the base of the segment that goes on with a batch ending at last_offset.

        A batch of the old formats does not say where it begins, only that it is above what precedes it.
        """
        return max(self.next_offset, self.base_offset + 1, last_offset - MAX_RELATIVE_OFFSET)

    def copy(self, window: bytes, start: int, end: int, *, last_offset: int, max_timestamp: int) -> None:
        """Add the batch window[start:end] as it is."""
        self._note(end - start, last_offset, max_timestamp)
        if window is self._window and start == self._copy_end:
            self._copy_end = end
            return
        if window is not self._window:
            self._drain()  # or the pieces would keep every window alive
        else:
            self._end_piece()
        self._window, self._copy_start, self._copy_end = window, start, end

    def add(self, batch: bytes | bytearray, *, last_offset: int, max_timestamp: int) -> None:
        """Add a rewritten batch."""
        self._note(len(batch), last_offset, max_timestamp)
        self._end_piece()
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        if len(self._pending) >= _MAX_PIECES or self._pending_bytes >= _MAX_PENDING_BYTES:
            self._drain()

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Index an aborted transaction whose marker is in this segment."""
        self._txn_index += TXN_ENTRY.pack(TXN_VERSION, *txn)

    def _note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self._largest_timestamp:
            self._largest_timestamp, self._offset_of_largest = max_timestamp, last_offset
        if self._bytes_since_index > self._interval and len(self._index) < self._max_index_entries * OFFSET_ENTRY.size:
            self._index += OFFSET_ENTRY.pack(last_offset - self.base_offset, self.size)
            if len(self._time_index) < self._max_time_entries * TIME_ENTRY.size:
                self._add_time_entry()
            self._bytes_since_index = 0
        self._bytes_since_index += size
        self.next_offset = last_offset + 1
        self.size += size

    def _add_time_entry(self) -> None:
        if self._largest_timestamp > self._last_indexed_timestamp:
            self._time_index += TIME_ENTRY.pack(self._largest_timestamp, self._offset_of_largest - self.base_offset)
            self._last_indexed_timestamp = self._largest_timestamp

    def _end_piece(self) -> None:
        if self._copy_start < self._copy_end:
            self._pending.append(memoryview(self._window)[self._copy_start : self._copy_end])
            self._pending_bytes += self._copy_end - self._copy_start
            self._copy_start = self._copy_end

    def _drain(self) -> None:
        self._end_piece()
        if self._pending:
            self._file.writev_at(self._pending, self._written)
            self._written += self._pending_bytes
            self._pending, self._pending_bytes = [], 0
        self._window, self._copy_start, self._copy_end = b"", 0, 0

    def finish(self, mtime_ms: int) -> CleanedSegment:
        """Make everything durable under the modification time of the newest source. Blocking: disk."""
        self._drain()
        self._add_time_entry()
        self._file.sync()
        self._file.close()
        self._fs.write_file(self._path(INDEX_SUFFIX), bytes(self._index))
        self._fs.write_file(self._path(TIME_INDEX_SUFFIX), bytes(self._time_index))
        if self._txn_index:
            self._fs.write_file(self._path(TXN_INDEX_SUFFIX), bytes(self._txn_index))
        for kind in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._fs.set_mtime_ms(self._path(kind), mtime_ms)
        return CleanedSegment(
            self.base_offset, self.size, len(self._index), len(self._time_index), len(self._txn_index)
        )

    def discard(self) -> None:
        """Remove the files."""
        self._file.close()
        for kind in SEGMENT_SUFFIXES:
            self._fs.unlink(self._path(kind))

    def _path(self, kind: str) -> str:
        return os.path.join(self._directory, segment_file(self.base_offset, kind, CLEANED_SUFFIX))


def remove_cleaned(fs: FileSystem, directory: str) -> None:
    """Remove what a pass left behind that was cancelled, failed or came too late. Raises: OSError."""
    for entry in fs.list_dir(directory):
        name = parse_segment_file(entry.name)
        if name is not None and name.marker == CLEANED_SUFFIX:
            fs.unlink(os.path.join(directory, entry.name))
