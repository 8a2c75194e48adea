"""BatchSet: several batches that lie one after the other in a buffer, looked at once before they are appended.

A dozen lines run for a batch, so that a copy of small batches is not much slower than one of large ones. Of what an
idempotent producer wrote only what changes its state is kept aside: the first batch, control batches, and the newest
few. Nothing is changed, in the log or in the buffer.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from protocol.records.batch import (
    CONTROL_BIT,
    CRC_START,
    ESSENTIALS,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    PREFIX_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    header_from,
    parse_prefix,
)
from protocol.records.control import EndTxnMarker
from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch, InvalidBatch
from storage.errors import CorruptRecord, InvalidRecord
from storage.log.transactions import marker_of
from storage.producers.entry import BATCHES_TO_RETAIN
from storage.segment.log_file import has_valid_crc, parse_any_header
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.sparse import Placed

NO_LIMIT: Final = 1 << 62


class BatchSet:
    """What was found: offsets, leader epochs, times and producers of the whole batches at the start of a buffer."""

    __slots__ = ("_settled", "batches", "end_offset", "epochs", "first_offset", "followed", "max_timestamp", "size")

    def __init__(self, end_offset: int) -> None:
        self.batches: list[Placed] = []  # where each begins, its last offset and its largest timestamp
        self.size = 0
        self.first_offset = end_offset
        self.end_offset = end_offset  # after the last batch
        self.max_timestamp = -1
        self.epochs: list[tuple[int, int]] = []  # leader epochs with the offset that each begins at
        self.followed: list[tuple[BatchHeader, EndTxnMarker | None]] = []  # of idempotent producers what counts
        # Producers whose next data batch changes nothing but their newest few, which wait here; by id, inverted for
        # those within a transaction.
        self._settled: dict[int, deque[tuple[int, ...]]] = {}

    @property
    def last_offset(self) -> int:
        """Of the last batch, inclusive."""
        return self.end_offset - 1

    def take(self, data: memoryview, *, max_batches: int = NO_LIMIT) -> None:
        """Look at whole batches until the buffer or the limit is reached; a torn one at the end is left.

        Raises: CorruptRecord, InvalidRecord for offsets that do not ascend.
        """
        position = 0
        try:
            while len(self.batches) < max_batches:
                position = self._take_plain(data, position, max_batches)
                following = self._take_odd(data, position) if len(self.batches) < max_batches else position
                if following == position:
                    break
                position = following
        except CorruptBatch as error:
            raise CorruptRecord(str(error)) from error
        except InvalidBatch as fault:
            raise InvalidRecord(f"malformed control batch: {fault}") from fault
        self.size = position
        for key in tuple(self._settled):
            self._take_settled(key)
        if self.batches:
            self.max_timestamp = max([batch[2] for batch in self.batches])
            self.first_offset = self._first_offset(data)

    def _first_offset(self, data: memoryview) -> int:
        """Return an offset that the first batch does not begin below. A legacy message tells only where it ends."""
        header = parse_any_header(data, 0)
        if header.magic >= MAGIC_V2:
            return header.base_offset
        return max(self.first_offset, self.last_offset - MAX_RELATIVE_OFFSET)

    def _take_odd(self, data: memoryview, at: int) -> int:
        """Take the one batch that _take_plain stopped at; return where it ends, `at` when it is cut."""
        if len(data) - at < PREFIX_SIZE:
            return at
        following = at + parse_prefix(data, at).size_bytes
        if following > len(data):
            return at
        header = parse_any_header(data, at)
        if not has_valid_crc(header, data[at:following]):
            raise CorruptRecord(f"batch at {header.base_offset} has a wrong CRC")
        if header.base_offset < self.end_offset:
            raise InvalidRecord(f"batch at {header.base_offset} lies below the log end {self.end_offset}")
        self.batches.append((at, header.last_offset, header.max_timestamp))
        self.end_offset = header.next_offset
        return following

    def _follow(self, key: int, header: BatchHeader, batch: memoryview) -> None:
        """Keep a batch aside, after what its producer wrote before it."""
        self._take_settled(key)
        self._take_settled(~key)
        self.followed.append((header, marker_of(header, batch)))
        if not header.is_control:
            self._settled[key] = deque(maxlen=BATCHES_TO_RETAIN)

    def _take_settled(self, key: int) -> None:
        self.followed += [(header_from(fields), None) for fields in self._settled.pop(key, ())]

    def _take_plain(self, data: memoryview, at: int, max_batches: int) -> int:
        """Take v2 batches; return where the first begins that is cut, of an older format, or one too many."""
        unpack, unpack_header, settled = ESSENTIALS.unpack_from, HEADER.unpack_from, self._settled
        batches, place = self.batches, self.batches.append
        end_offset = self.end_offset
        known_epoch = self.epochs[-1][0] if self.epochs else None
        size = len(data)
        limit, left = size - HEADER_SIZE, max_batches - len(batches)
        while at <= limit and left > 0:
            base_offset, length, epoch, magic, crc, attributes, delta, timestamp, producer_id = unpack(data, at)
            following = at + length + LOG_OVERHEAD
            if following > size or magic != MAGIC_V2 or length < MIN_BATCH_LENGTH:
                break
            if crc32c(data[at + CRC_START : following]) != crc:
                raise CorruptRecord(f"batch at {base_offset} has a wrong CRC")
            if base_offset < end_offset:
                raise InvalidRecord(f"batch at {base_offset} lies below the log end {end_offset}")
            if epoch != known_epoch:
                self.epochs.append((epoch, base_offset))
                known_epoch = epoch
            if producer_id >= 0:
                key = producer_id if not attributes & TRANSACTIONAL_BIT else ~producer_id
                waiting = settled.get(key)
                if waiting is not None and not attributes & CONTROL_BIT:
                    waiting.append(unpack_header(data, at))
                else:
                    self._follow(key, header_from(unpack_header(data, at)), data[at:following])
            end_offset = base_offset + delta + 1
            place((at, end_offset - 1, timestamp))
            left -= 1
            at = following
        self.end_offset = end_offset
        return at
