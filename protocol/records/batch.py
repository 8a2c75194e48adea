"""The v2 batch header: parse, check, walk, and patch in place the few fields a broker may change.

Offsets of the fields are Kafka's (DefaultRecordBatch). Base offset and leader epoch lie outside the CRC, so the
leader stamps them without touching it; attributes and max timestamp lie inside, so changing them recomputes it.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and batch length: the part that batch_length does not count."""
PREFIX_SIZE: Final = 17
"""Enough of any batch or legacy message to learn its size and magic."""
MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MIN_LEGACY_LENGTH: Final = 14
MAGIC_V2: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 0x7FFFFFFF

CRC_START: Final = 21
_LEADER_EPOCH_AT: Final = 12
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35

HEADER: Final = Struct(">qiibIhiqqqhii")
ESSENTIALS: Final = Struct(">qiibIhi8xqq")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, max timestamp, producer id."""
_PREFIX: Final = Struct(">qiib")
_HEAD: Final = Struct(">qii")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_UINT32: Final = Struct(">I")


class TimestampType(IntEnum):
    """What the timestamps of a batch mean."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records of a v2 batch."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and the twelve uncounted bytes included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was made with, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Compression codec id, 0 for none."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """CreateTime, or LogAppendTime when the broker stamped the batch."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """The batch belongs to a transaction, or is its marker."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """The records are control records, never shown to consumers."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        """Some producer id is set; any negative one counts as none."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapping from 2^31-1 to 0; -1 when the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


_new_tuple: Final = tuple.__new__


def header_from(fields: tuple[int, ...]) -> BatchHeader:
    """Wrap the thirteen unpacked fields; the cheapest way to a BatchHeader."""
    return _new_tuple(BatchHeader, fields)


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Parse the batch that starts at position, checking size and magic but not the CRC.

    Raises: CorruptBatch if fewer than 61 bytes are left, the length is impossible or the magic is not 2.
    """
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too few for a batch header")
    header = _new_tuple(BatchHeader, HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC_V2:
        raise CorruptBatch(f"magic {header.magic} is not 2")
    if header.batch_length < MIN_BATCH_LENGTH:
        raise CorruptBatch(f"batch length {header.batch_length} is below {MIN_BATCH_LENGTH}")
    return header


class BatchPrefix(NamedTuple):
    """The fields that every format shares, at the same place."""

    base_offset: int
    size_bytes: int
    magic: int


def parse_prefix(buffer: Buffer, position: int = 0) -> BatchPrefix:
    """Read size and magic of a batch or legacy message from its first 17 bytes.

    Raises: CorruptBatch for a size no format allows; zeros (a preallocated tail) are such a size.
    """
    if len(buffer) - position < PREFIX_SIZE:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too few for a batch")
    base_offset, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if length < MIN_LEGACY_LENGTH or (magic >= MAGIC_V2 and length < MIN_BATCH_LENGTH):
        raise CorruptBatch(f"batch length {length} is impossible for magic {magic}")
    return BatchPrefix(base_offset, length + LOG_OVERHEAD, magic)


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """CRC-32C over everything from the attributes to the end of the batch; copies nothing."""
    return crc32c(memoryview(buffer)[position + CRC_START : position + size_bytes])


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Tell whether the batch lies whole in the buffer and its CRC holds."""
    end = position + header.batch_length + LOG_OVERHEAD
    return end <= len(buffer) and crc32c(memoryview(buffer)[position + CRC_START : end]) == header.crc


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Walk whole v2 batches as (position, header); an incomplete last batch ends the walk.

    Raises: CorruptBatch where a length or magic is impossible. CRCs are the caller's choice.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        following = position + header.batch_length + LOG_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


def pack_head(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """Build the 16 bytes outside the CRC, for a batch whose buffer cannot be written in place."""
    return _HEAD.pack(base_offset, batch_length, leader_epoch)


def patch_head(
    buffer: bytearray | memoryview, position: int, base_offset: int, batch_length: int, leader_epoch: int
) -> None:
    """Stamp base offset and leader epoch in one store; batch_length must be the batch's own."""
    _HEAD.pack_into(buffer, position, base_offset, batch_length, leader_epoch)


def patch_offset_and_epoch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Stamp base offset and leader epoch; both lie outside the CRC."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def patch_timestamps(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    """Set attributes and max timestamp, recompute the CRC, and return the header as it is now."""
    _INT16.pack_into(buffer, position + _ATTRIBUTES_AT, attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    crc = compute_crc(buffer, position, header.size_bytes)
    _UINT32.pack_into(buffer, position + _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)
