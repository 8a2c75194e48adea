"""One segment of a log: the `.log` with its three indexes, named by the base offset.

Invariants: every offset lies in [base_offset, base_offset + 2^31 - 1]; the indexes hold nothing that the `.log` does
not; index files have their full length only while the segment is active. A sealed segment opens its files on demand and
reads its indexes when first asked, so thousands of them cost neither descriptors nor memory.
Source: Kafka's LogSegment.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Sequence
from typing import Final

from config.views import LONG_MAX, LogConfig
from protocol.records.errors import CorruptBatch
from storage.env.fs import Buffer, File, FileSystem
from storage.errors import CorruptIndex, IndexTooSmall
from storage.segment.log_file import Allocation, LogFile, WriteQueue
from storage.segment.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from storage.segment.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from storage.segment.open_files import Counted, OpenFiles
from storage.segment.scan import IndexEntries, OffsetOverflow
from storage.segment.sparse import Placed, sparse_entries
from storage.segment.time_index import ENTRY as TIME_ENTRY
from storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from storage.segment.txn_index import TxnIndex
from storage.segment.view import SegmentView, TimesFrom

NEVER: Final = LONG_MAX
MIN_BATCH_BYTES: Final = 26  # the smallest legacy message; no index has more entries than its log has batches

logger: Final = logging.getLogger(__name__)


def ensure_room_in_indexes(config: LogConfig) -> None:
    """Check that a new segment's index files can hold an entry. Raises: IndexTooSmall."""
    needed_bytes = max(OFFSET_ENTRY.size, TIME_ENTRY.size)
    if config.segment_index_bytes < needed_bytes:
        raise IndexTooSmall(config.segment_index_bytes, needed_bytes)


class Segment:
    """Append, locate, recover and seal one segment."""

    __slots__ = (
        "_config",
        "_fs",
        "_index_sizes",
        "base_offset",
        "bytes_since_index",
        "cached_from",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "is_active",
        "is_index_full",
        "jitter_ms",
        "largest_timestamp",
        "log",
        "marker",
        "offset_index",
        "offset_of_largest_timestamp",
        "rolling_timestamp",
        "time_index",
        "times_from",
        "txn_index",
        "writeback_at",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        jitter_ms: int,
        log_size: int = 0,
        queue: WriteQueue | None = None,
    ) -> None:
        self._fs = fs
        self._config = config
        self.directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = config.index_interval_bytes
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms  # sampled once, so that asking twice whether to roll gives one answer
        self.marker = ""  # suffix of the files while they are being deleted or installed
        self.is_active = False
        self.is_index_full = False  # no room for another batch and the entry written at roll
        index_bytes = config.segment_index_bytes
        self.log = LogFile(fs, self._path(LOG_SUFFIX), log_size, _allocation(config), queue)
        self.offset_index = OffsetIndex(fs, self._path(INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, self._path(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.txn_index = TxnIndex(fs, self._path(TXN_INDEX_SUFFIX), base_offset)
        self._index_sizes: tuple[int, int] | None = None  # found at load and not looked at yet
        self.rolling_timestamp = NO_TIMESTAMP  # max timestamp of the first batch; -1 while unknown or without one
        self.largest_timestamp = NO_TIMESTAMP  # of the whole segment; valid after ensure_indexes
        self.offset_of_largest_timestamp = base_offset  # last offset of the batch that holds it
        self.times_from = TimesFrom.BATCHES  # storage.segment.time_check moves it on
        self.bytes_since_index = 0  # bytes appended after the newest offset index entry
        self.writeback_at = NEVER  # size of the `.log` at which its window is full; moved by begin_window
        self.cached_from = 0  # what lies below is of no concern to the page cache's budget; moved by LogState

    def count_in(self, open_files: OpenFiles) -> None:
        """Let the files count among those of all logs; they may be closed from then on whenever they are not in use."""
        counted = Counted(open_files, self)
        self.log.counted = self.offset_index.file.counted = self.time_index.file.counted = counted

    # --- becoming active, sealed, known ---

    def create_files(self) -> None:
        """Make the empty files of a new active segment. Stray files of these names are removed first.

        Raises: IndexTooSmall, OSError.
        """
        ensure_room_in_indexes(self._config)
        for kind in SEGMENT_SUFFIXES:
            self._fs.unlink(self._path(kind))
        self.log.open(create=True)
        self.log.close()
        self.activate()

    def set_index_sizes(self, index_size: int, time_index_size: int, txn_index_size: int) -> None:
        """Remember what the directory listing said; the files are opened when first needed."""
        self._index_sizes = (index_size, time_index_size)
        self.txn_index.load(txn_index_size)

    def has_odd_index_sizes(self) -> bool:
        """Tell from the sizes found at load whether an index file cannot be whole; missing ones are of size 0."""
        if self._index_sizes is None:
            return False
        index_size, time_index_size = self._index_sizes
        if index_size % OFFSET_ENTRY.size or time_index_size % TIME_ENTRY.size:
            return True
        has_too_few = self._lacks_time_entry(time_index_size) or (
            self.log.size > 0 and not self._fs.exists(self.offset_index.file.path)
        )
        return has_too_few or index_size // OFFSET_ENTRY.size > self.log.size // MIN_BATCH_BYTES

    def ensure_indexes(self) -> None:
        """Read the ends of the index files once; a broken one is rebuilt from the `.log` here and now."""
        sizes = self._index_sizes
        if sizes is None:
            return
        try:
            self.offset_index.load(sizes[0])
            self.offset_index.check(self.log.size)
            self.time_index.load(sizes[1])
            self.time_index.check()
            if self._lacks_time_entry(sizes[1]):
                raise CorruptIndex(self.time_index.file.path, "has not even the final entry")
            if self.time_index.is_blank and self._begins_after(0):
                raise CorruptIndex(self.time_index.file.path, "has nothing but zeros")
        except CorruptIndex as error:
            logger.warning("rebuilding an index path=%s reason=%s", error.path, error.reason)
            self.rebuild_indexes()
            return
        self.largest_timestamp = self.time_index.last_timestamp
        self.offset_of_largest_timestamp = self.time_index.last_offset
        self._index_sizes, self.times_from = None, TimesFrom.INDEX  # last: what fails is to be tried again

    def _lacks_time_entry(self, time_index_size: int) -> bool:
        """Tell whether an empty time index cannot be right: it is where no record has a timestamp, as in format v0."""
        if time_index_size or not self.log.size:
            return False
        if not self._fs.exists(self.time_index.file.path):
            return True
        return self._begins_after(NO_TIMESTAMP)

    def _begins_after(self, timestamp: int) -> bool:
        """Tell whether the first batch has a later time, or none that can be read."""
        try:
            return self.first_timestamp() > timestamp
        except CorruptBatch:
            return True

    def activate(self) -> None:
        """Give the index files their full length; appends may follow."""
        self.ensure_indexes()
        max_bytes = self._config.segment_index_bytes
        self.offset_index.file.make_writable(max_bytes)
        self.time_index.file.make_writable(max_bytes)
        self.offset_index.file.release()
        self.time_index.file.release()
        self.log.count_out()
        self.is_active = True
        self._note_index_room()
        self.cached_from = self.log.size
        self.begin_window()

    def begin_window(self) -> None:
        """Count the bytes of the next write-back from here on, where this segment is to be written back at all."""
        config = self._config
        window_bytes = config.writeback_window_bytes
        self.writeback_at = self.log.size + window_bytes if window_bytes and not config.flush_on_append else NEVER

    def seal(self) -> None:
        """Write the final time index entry and cut every file to what it holds; appends are over."""
        if self.log.is_direct:
            self.cached_from = self.log.size
        self.write_final_time_entry()
        self.offset_index.file.close()
        self.time_index.file.close()
        self.log.trim()
        self.is_active = False
        self.writeback_at = NEVER

    def adopt(self, config: LogConfig) -> None:
        """Follow a change of settings: the allocation only, the rest is fixed at creation. Raises: OSError."""
        self.log.allocate(_allocation(config))

    def write_final_time_entry(self) -> None:
        """Let the time index know the largest timestamp of the segment."""
        self.ensure_indexes()
        if self.log.size:
            self.time_index.maybe_append(self.largest_timestamp, self.offset_of_largest_timestamp, is_final=True)

    # --- append ---

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch of `size` bytes. The caller has checked sizes and offsets, and undoes a failed append."""
        log = self.log
        position = log.size
        (log.writer or log.open_writer()).write_at(batch, position)
        log.size = position + size
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.offset_of_largest_timestamp = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self._add_index_entries(last_offset, position)
        self.bytes_since_index += size
        if not position:
            self.rolling_timestamp = max_timestamp

    def append_set(self, data: Buffer, batches: Sequence[Placed]) -> None:
        """Write several batches that lie one after the other in `data` with one call, and their index entries."""
        start, offsets, times = self.log.append(data), self.offset_index, self.time_index
        found = sparse_entries(
            batches,
            start,
            len(data),
            interval_bytes=self.index_interval_bytes,
            bytes_since_index=self.bytes_since_index,
            largest=(self.largest_timestamp, self.offset_of_largest_timestamp),
            last_indexed_timestamp=times.last_timestamp,
            room=(offsets.file.max_entries - offsets.file.count, times.file.max_entries - 1 - times.file.count),
        )
        offsets.extend(found.offsets)
        times.extend(found.times)
        self.bytes_since_index = found.bytes_since_index
        self.largest_timestamp, self.offset_of_largest_timestamp = found.largest_timestamp, found.offset_of_largest
        if not start:
            self.rolling_timestamp = batches[0][2]
        self._note_index_room()

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self.largest_timestamp, self.offset_of_largest_timestamp)
        self.bytes_since_index = 0
        self._note_index_room()

    def _note_index_room(self) -> None:
        self.is_index_full = self.offset_index.file.is_full() or self.time_index.is_full_for_roll()

    def undo_append(self, size: int, base_offset: int) -> None:
        """Cut back to `size` bytes after a failed write, so that no later batch follows half of an earlier one."""
        self.log.truncate(size)
        self.offset_index.truncate_to(base_offset)
        self.time_index.truncate_to(base_offset)

    def first_timestamp(self) -> int:
        """Return the max timestamp of the first batch, -1 when the segment is empty or has none."""
        if self.rolling_timestamp < 0 and self.log.size:
            self.rolling_timestamp = self.log.header_at(0).max_timestamp
        return self.rolling_timestamp

    def waited_ms(self, now_ms: int, incoming_timestamp: int) -> int:
        """Return the age that the time roll compares: by the messages' clock when the first batch has a timestamp."""
        first = self.first_timestamp()
        return incoming_timestamp - first if first >= 0 else now_ms - self.created_ms

    def retention_timestamp(self) -> int:
        """Return the time from which the segment ages: its largest timestamp, else when the `.log` was last written."""
        self.ensure_indexes()
        return self.largest_timestamp if self.largest_timestamp >= 0 else self._fs.mtime_ms(self.log.path)

    # --- locate ---

    @property
    def is_timestamp_known(self) -> bool:
        """Tell whether the largest timestamp is known without asking the time index."""
        return self._index_sizes is None

    def may_hold_timestamp(self, timestamp: int) -> bool:
        """Tell whether a record of that time or a later one may be here, as far as it is known."""
        return self.log.size > 0 and (self._index_sizes is not None or self.largest_timestamp >= timestamp)

    def view(self) -> SegmentView:
        """Write down what a read beside the owner needs; of the `.log` what is in the file."""
        if self._index_sizes is not None:
            index_bytes, time_index_bytes = self._index_sizes
            largest_timestamp = None
        else:
            index_bytes = self.offset_index.file.written_bytes
            time_index_bytes = self.time_index.file.written_bytes
            largest_timestamp = self.largest_timestamp
        return SegmentView(
            self.directory,
            self.base_offset,
            self.marker,
            self.log.written_bytes,
            index_bytes,
            time_index_bytes,
            largest_timestamp,
            self.offset_of_largest_timestamp,
            TimesFrom.INDEX if largest_timestamp is None else self.times_from,
        )

    def locate(self, offset: int) -> int | None:
        """Return the position of the first batch with last offset >= offset, None when the segment ends before."""
        if offset <= self.base_offset:
            return 0 if self.log.size else None
        self.ensure_indexes()
        return self.log.find_batch(offset, self.offset_index.lookup(offset))

    def locate_end(self, position: int, max_bytes: int) -> int:
        """Return where the whole batches from `position` that fit into max_bytes end; `position` when none fits.

        The index gives a boundary in a few reads; only a window smaller than an index interval is walked.
        """
        limit = position + max_bytes
        if limit >= self.log.size:
            return self.log.size
        self.ensure_indexes()
        boundary = self.offset_index.boundary_at_or_before(limit)
        return boundary if boundary > position else self.log.end_of_batches(position, limit)[1]

    def next_offset(self) -> int:
        """Return the offset after the last batch, walking from the last index entry. Raises: CorruptBatch."""
        self.ensure_indexes()
        following = self.base_offset
        for _, header in self.log.headers(self.last_indexed()):
            following = header.next_offset
        return following

    def last_indexed(self) -> int:
        """Return the position of the last batch that the offset index knows, 0 without one."""
        return self.offset_index.lookup(self.offset_index.last_offset) if self.offset_index.file.count else 0

    def ensure_in_range(self, last_offset: int) -> None:
        """Make sure that the indexes can express the segment's last offset. Raises: OffsetOverflow."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise OffsetOverflow(self.base_offset, last_offset)

    # --- rebuilding and truncation: see storage.segment.recovery for the rest ---

    def rebuild_indexes(self) -> None:
        """Make both sparse indexes anew from the headers, trusting the `.log`; the txn index is left alone.

        Raises: OffsetOverflow.
        """
        entries, times_from = self.new_entries(), TimesFrom.BATCHES
        try:
            for position, header in self.log.headers():
                entries.take(position, header.last_offset, header.max_timestamp)
        except CorruptBatch as error:
            logger.warning("an index stays incomplete path=%s reason=%s", self.log.path, error)
            times_from = TimesFrom.DISPROVED
        self.take_entries(entries)
        self.times_from = times_from
        self.offset_index.file.sync()  # no flush will come by here
        self.time_index.file.sync()
        if self.is_active:
            self.activate()

    def new_entries(self) -> IndexEntries:
        """Begin to make both sparse indexes anew; what was known of the old ones is forgotten."""
        self._index_sizes, self.times_from = None, TimesFrom.DISPROVED
        return IndexEntries(self.offset_index, self.time_index, self.index_interval_bytes)

    def take_entries(self, entries: IndexEntries) -> None:
        """Let new entries be the indexes."""
        entries.write()
        self.largest_timestamp = entries.largest_timestamp
        self.offset_of_largest_timestamp = entries.offset_of_largest
        self.times_from = TimesFrom.BATCHES

    def truncate_to(self, offset: int) -> None:
        """Cut from the first batch with last offset >= offset on; a batch that spans the offset goes whole."""
        self.ensure_indexes()  # what nobody has looked at could not be cut
        position = self.locate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.bytes_since_index = 0
        if position is not None:
            self.log.truncate(position)
            self.cached_from = min(self.cached_from, position)
            if self.is_active:
                self.begin_window()
        self.rolling_timestamp = NO_TIMESTAMP
        self._note_index_room()
        self._reload_largest_timestamp()

    def _reload_largest_timestamp(self) -> None:
        timestamp, offset = self.time_index.last_timestamp, self.time_index.last_offset
        start = self.offset_index.lookup(offset) if timestamp >= 0 else 0
        for _, header in self.log.headers(start):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self.largest_timestamp, self.offset_of_largest_timestamp = timestamp, offset

    # --- files ---

    @property
    def size(self) -> int:
        """Bytes of batches."""
        return self.log.size

    @property
    def is_waiting(self) -> bool:
        """Tell whether a plan has something to write or to cut in the `.log`."""
        return self.log.is_waiting

    def open_files(self) -> list[File]:
        """Return the open files of an active segment that a flush must sync.

        Indexes that were closed since they were written are opened again: what they hold may not be on disk yet.
        """
        indexes = (self.offset_index.file.to_sync(), self.time_index.file.to_sync(), self.txn_index.to_sync())
        return [self.log.open(), *(file for file in indexes if file is not None)]

    def file_paths(self) -> list[str]:
        """Return the paths of the files that a flush of a sealed segment must sync; some may not exist."""
        return [self._path(kind) for kind in SEGMENT_SUFFIXES]

    def release_files(self) -> None:
        """Give back the descriptors; the next use opens the files again."""
        self.log.close()
        self.offset_index.forget_page()
        self.offset_index.file.release()
        self.time_index.file.release()
        self.txn_index.close()

    def rename(self, marker: str) -> None:
        """Rename all files to carry `marker` ("" for their plain names)."""
        for kind in SEGMENT_SUFFIXES:
            source = self._path(kind)
            if self._fs.exists(source):
                self._fs.rename(source, self._path_with(kind, marker))
        self.marker = marker
        self._repath()

    def adopt_marker(self, marker: str) -> None:
        """Take over files that carry `marker` already."""
        self.marker = marker
        self._repath()

    def move_to_directory(self, directory: str) -> None:
        """Follow a rename of the partition's directory; open descriptors stay as they are."""
        self.directory = directory
        self._repath()

    def unlink(self) -> None:
        """Remove the files. Readers that pinned them keep reading."""
        self.release_files()
        for kind in SEGMENT_SUFFIXES:
            self._fs.unlink(self._path(kind))

    def _repath(self) -> None:
        self.log.path = self._path(LOG_SUFFIX)
        self.offset_index.file.rename(self._path(INDEX_SUFFIX))
        self.time_index.file.rename(self._path(TIME_INDEX_SUFFIX))
        self.txn_index.rename(self._path(TXN_INDEX_SUFFIX))

    def _path(self, kind: str) -> str:
        return self._path_with(kind, self.marker)

    def _path_with(self, kind: str, marker: str) -> str:
        return os.path.join(self.directory, segment_file(self.base_offset, kind, marker))

    def __repr__(self) -> str:
        state = "active" if self.is_active else "sealed"
        return f"Segment({self.directory!r}, base={self.base_offset}, size={self.log.size}, {state}{self.marker})"


def _allocation(config: LogConfig) -> Allocation | None:
    return Allocation(config.segment_bytes, config.tail_cache_bytes) if config.preallocate else None
