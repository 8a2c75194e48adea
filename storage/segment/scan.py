"""The walk over a `.log` whose bytes are not trusted: lengths, checksums, offsets, and what the indexes will hold.

Everything is read once, window after window into one buffer, and nothing is done for a record. A dozen lines run for a
batch; only those are handed to the caller that change what a log knows: the first of a leader epoch or of a
transaction, control batches, and of what idempotent producers wrote the newest few of each, since only these are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from protocol.records.batch import (
    CONTROL_BIT,
    CRC_START,
    ESSENTIALS,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    header_from,
)
from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch
from storage.env.fs import File
from storage.producers.entry import BATCHES_TO_RETAIN
from storage.segment.log_file import LogFile, has_valid_crc, parse_any_header
from storage.segment.offset_index import ENTRY as OFFSET_ENTRY
from storage.segment.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from storage.segment.time_index import ENTRY as TIME_ENTRY
from storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from storage.stats import LoadProgress

WINDOW_BYTES = 1 << 20  # one read call a MiB; more than the processor's caches hold gains nothing

Follow = Callable[[BatchHeader, memoryview], None]
"""Takes a batch that matters, in the order of the log for each producer. The bytes are there for control batches only,
and during the call only."""

_NO_BYTES = memoryview(b"")


class OffsetOverflow(Exception):
    """A batch ends above base offset + 2^31 - 1, which the indexes cannot express: the segment must be split."""

    def __init__(self, base_offset: int, last_offset: int) -> None:
        super().__init__(f"offset {last_offset} cannot lie in a segment at {base_offset}")
        self.base_offset = base_offset


class IndexEntries:
    """Entries of both sparse indexes, gathered while a segment is walked and written in one go.

    Bounded by segment.index.bytes for each: what would not fit is left out, which makes lookups longer, not wrong.
    """

    __slots__ = (
        "_base_offset",
        "_interval_bytes",
        "_last_timestamp",
        "_offset_index",
        "_offsets",
        "_time_index",
        "_times",
        "due_after",
        "largest_timestamp",
        "offset_of_largest",
    )

    def __init__(self, offset_index: OffsetIndex, time_index: TimeIndex, interval_bytes: int) -> None:
        self._offset_index = offset_index
        self._time_index = time_index
        self._base_offset = offset_index.base_offset
        self._interval_bytes = interval_bytes
        self._offsets = bytearray()
        self._times = bytearray()
        self._last_timestamp = NO_TIMESTAMP  # of the last time entry
        self.due_after = interval_bytes  # a batch that starts behind this position gets an entry
        self.largest_timestamp = NO_TIMESTAMP
        self.offset_of_largest = self._base_offset

    def take(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """Take note of a batch, with entries if it is due. Raises: OffsetOverflow."""
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            raise OffsetOverflow(self._base_offset, last_offset)
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp, self.offset_of_largest = max_timestamp, last_offset
        if position > self.due_after:
            self.add(position, last_offset)

    def add(self, position: int, last_offset: int) -> None:
        """Add the entries of a batch that is due."""
        if len(self._offsets) >= self._offset_index.file.max_entries * OFFSET_ENTRY.size:
            return
        self.due_after = position + self._interval_bytes
        self._offsets += OFFSET_ENTRY.pack(last_offset - self._base_offset, position)
        if len(self._times) < (self._time_index.file.max_entries - 1) * TIME_ENTRY.size:  # the final one has its slot
            self._add_time()

    def write(self) -> None:
        """Put the entries into the indexes, the final time entry too. Blocking: disk."""
        self._add_time()
        self._offset_index.replace(self._offsets)
        self._time_index.replace(self._times)

    def _add_time(self) -> None:
        if self.largest_timestamp > self._last_timestamp:
            self._last_timestamp = self.largest_timestamp
            self._times += TIME_ENTRY.pack(self.largest_timestamp, self.offset_of_largest - self._base_offset)


class Scanned(NamedTuple):
    """What a walk found: good batches up to valid_bytes, and why it ended before the file did ("" if it did not)."""

    valid_bytes: int
    next_offset: int
    damage: str
    cut_bytes: int = 0  # set by whoever cuts what follows the good batches


def scan(log: LogFile, entries: IndexEntries, follow: Follow, progress: LoadProgress, *, known_epoch: int) -> Scanned:
    """Walk the batches of a segment up to the first bad byte.

    Raises: OffsetOverflow. Blocking: reads the whole segment.
    """
    return _Scan(log, entries, follow, progress, known_epoch).run()


class _Scan:
    """One walk. Between windows its state lives here, within one in local variables."""

    __slots__ = (
        "_base_offset",
        "_buffer",
        "_end",
        "_entries",
        "_file",
        "_follow",
        "_known_epoch",
        "_last_offset",
        "_log",
        "_progress",
        "_read_end",
        "_settled",
    )

    def __init__(
        self, log: LogFile, entries: IndexEntries, follow: Follow, progress: LoadProgress, known_epoch: int
    ) -> None:
        self._log = log
        self._file: File = log.open()
        self._end = log.size
        self._buffer = memoryview(bytearray(min(WINDOW_BYTES, log.size)))
        self._entries = entries
        self._base_offset = entries.offset_of_largest
        self._follow = follow
        self._progress = progress
        self._read_end = 0  # what lies below has been counted
        self._known_epoch = known_epoch
        self._last_offset = self._base_offset - 1
        # Producers whose next data batch changes nothing but their newest few, which wait here; by id, inverted for
        # those within a transaction.
        self._settled: dict[int, deque[tuple[int, ...]]] = {}

    def run(self) -> Scanned:
        position, damage = 0, ""
        while position < self._end and not damage:
            window = self._buffer[: self._file.read_into(self._buffer[: self._end - position], position)]
            self._count_to(position + len(window))
            at, damage = self._walk(window, 0, position)
            while not damage:
                size, damage = self._take_odd(window[at:], position + at, is_cut=at > 0)
                if not size:
                    break
                at, damage = self._walk(window, at + size, position)
            position += at
            self._count_to(position)
        for waiting in self._settled.values():
            self._follow_waiting(waiting)
        return Scanned(position, self._last_offset + 1, damage)

    def _count_to(self, end: int) -> None:
        """Count the bytes up to a position, each once: a batch that a window cuts is read again with the next one."""
        if end > self._read_end:
            self._progress.scanned_bytes += end - self._read_end
            self._read_end = end

    def _walk(self, window: memoryview, at: int, start: int) -> tuple[int, str]:
        """Take the batches that lie whole in a window; return where the next one begins and what is wrong with it.

        Nothing is said of one that the window cuts, or that is of an older format.
        """
        unpack, unpack_header, entries, settled = (
            ESSENTIALS.unpack_from,
            HEADER.unpack_from,
            self._entries,
            self._settled,
        )
        last_offset, known_epoch = self._last_offset, self._known_epoch
        highest = self._base_offset + MAX_RELATIVE_OFFSET
        largest_timestamp, due_after = entries.largest_timestamp, entries.due_after - start
        size, damage = len(window), ""
        limit = size - HEADER_SIZE
        while at <= limit:
            base_offset, length, epoch, magic, crc, attributes, delta, timestamp, producer_id = unpack(window, at)
            following = at + length + LOG_OVERHEAD
            if following > size or magic != MAGIC_V2 or length < MIN_BATCH_LENGTH:
                break
            if crc32c(window[at + CRC_START : following]) != crc:
                damage = f"wrong CRC at byte {start + at}"
                break
            base_offset += delta
            if base_offset <= last_offset or base_offset > highest:
                damage = self._misplaced(base_offset, start + at)
                break
            last_offset = base_offset
            if timestamp > largest_timestamp:
                largest_timestamp = entries.largest_timestamp = timestamp
                entries.offset_of_largest = last_offset
            if at > due_after:
                entries.add(start + at, last_offset)
                due_after = entries.due_after - start
            if producer_id >= 0 or epoch > known_epoch:
                waiting = settled.get(producer_id if not attributes & TRANSACTIONAL_BIT else ~producer_id)
                if waiting is not None and epoch <= known_epoch and not attributes & CONTROL_BIT:
                    waiting.append(unpack_header(window, at))
                else:
                    known_epoch = self._follow_now(header_from(unpack_header(window, at)), window[at:following])
            at = following
        self._last_offset = last_offset
        return at, damage

    def _follow_now(self, header: BatchHeader, batch: memoryview) -> int:
        """Hand a batch over, after what its producer wrote before it; return the newest epoch known now."""
        producer_id = header.producer_id
        key = producer_id if not header.is_transactional else ~producer_id
        for settled in (key, ~key):
            self._follow_waiting(self._settled.pop(settled, ()))
        self._follow(header, batch)
        if producer_id >= 0 and not header.is_control:
            self._settled[key] = deque(maxlen=BATCHES_TO_RETAIN)
        self._known_epoch = max(self._known_epoch, header.partition_leader_epoch)
        return self._known_epoch

    def _follow_waiting(self, waiting: Iterable[tuple[int, ...]]) -> None:
        for fields in waiting:
            self._follow(header_from(fields), _NO_BYTES)

    def _misplaced(self, offset: int, position: int) -> str:
        """Tell what is wrong with a last offset outside its range. Raises: OffsetOverflow."""
        if offset > self._base_offset + MAX_RELATIVE_OFFSET:
            raise OffsetOverflow(self._base_offset, offset)
        return f"offset {offset} at byte {position} is not above {self._last_offset}"

    def _take_odd(self, window: memoryview, position: int, *, is_cut: bool) -> tuple[int, str]:
        """Take the one batch that _walk stopped at; return its size, 0 when the window must begin with it, and damage.

        It is longer than the window, shorter than a header, or a message of an older format.
        """
        if is_cut and len(window) < HEADER_SIZE:
            return 0, ""
        try:
            header = parse_any_header(window, 0)
        except CorruptBatch as error:
            return 0, f"{error} at byte {position}"
        size = header.size_bytes
        if size > len(window):
            if is_cut:
                return 0, ""
            if position + size > self._end:
                return 0, f"a batch of {size} bytes at byte {position} is torn"
        if not self._has_valid_crc(header, window, position):
            return 0, f"wrong CRC at byte {position}"
        last_offset = header.last_offset
        if not self._last_offset < last_offset <= self._base_offset + MAX_RELATIVE_OFFSET:
            return 0, self._misplaced(last_offset, position)
        self._last_offset = last_offset
        self._entries.take(position, last_offset, header.max_timestamp)
        if header.producer_id >= 0 or header.partition_leader_epoch > self._known_epoch:
            self._follow_now(header, window[:size])
        return size, ""

    def _has_valid_crc(self, header: BatchHeader, window: memoryview, position: int) -> bool:
        """Check a batch that may be longer than the window; its bytes are read piece by piece into the same buffer."""
        size = header.size_bytes
        if size <= len(window):
            return has_valid_crc(header, window[:size])
        if header.magic != MAGIC_V2:
            return has_valid_crc(header, memoryview(self._log.read(position, size)))
        crc, read = crc32c(window[CRC_START:]), len(window)
        rest = memoryview(bytearray(min(WINDOW_BYTES, size - read)))
        while read < size:
            got = self._file.read_into(rest[: size - read], position + read)
            if not got:
                return False
            crc, read = crc32c(rest[:got], crc), read + got
            self._count_to(position + read)
        return crc == header.crc
