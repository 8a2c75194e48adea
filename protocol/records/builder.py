"""Write v2 batches: those the broker makes itself, and those it re-encodes."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct

from protocol.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
)
from protocol.records.compression import compress
from protocol.records.crc import crc32c
from protocol.records.varint import encode_varint

HeaderList = Iterable[tuple[str, bytes | None]]
RecordTuple = (
    tuple[bytes | None, bytes | None]
    | tuple[bytes | None, bytes | None, HeaderList | None]
    | tuple[bytes | None, bytes | None, HeaderList | None, int]
)
"""(key, value), then headers, then timestamp; what is left out is empty, or the batch's timestamp."""

_UINT32 = Struct(">I")
_CRC_AT = 17
_NULL = encode_varint(-1)


def build_batch(
    records: Sequence[RecordTuple],
    *,
    base_offset: int = 0,
    timestamp: int = NO_TIMESTAMP,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: int = 0,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """Build one batch with offsets base_offset, base_offset + 1, …; timestamp serves records that bring none.

    Shape: the whole batch, writable, so that the log can stamp offset and epoch in place.
    """
    assert records, "a batch holds at least one record"
    timestamps = [record[3] if len(record) > 3 else timestamp for record in records]
    base_timestamp = timestamps[0]
    section = b"".join(
        encode_record(
            delta, timestamps[delta] - base_timestamp, record[0], record[1], record[2] if len(record) > 2 else None
        )
        for delta, record in enumerate(records)
    )
    attributes = codec
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(timestamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble(header, compress(codec, section, level) if codec else section)


def build_pairs(
    pairs: Sequence[tuple[bytes | None, bytes | None, object]],
    *,
    timestamp: int,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytearray:
    """Build what `build_batch` would of records with one timestamp and no headers, several times as fast.

    A pair is a key and a value, each of which may be None; what follows them in it is left out.
    """
    assert pairs, "a batch holds at least one record"
    parts = [_ROOM_FOR_HEADER]
    for delta, (key, value, _) in enumerate(pairs):
        number = _zigzag(delta)
        if key is None:
            key, key_size = b"", _NULL
        else:
            key_size = _zigzag(len(key))
        # Attributes and timestamp delta before the number, the count of headers at the end: three zeros.
        size = 3 + len(number) + len(key_size) + len(key)
        if value is None:
            parts += (_zigzag(size + 1), b"\0\0", number, key_size, key, _NULL, b"\0")
        else:
            value_size = _zigzag(len(value))
            size += len(value_size) + len(value)
            parts += (_zigzag(size), b"\0\0", number, key_size, key, value_size, value, b"\0")
    batch = bytearray().join(parts)
    attributes = TRANSACTIONAL_BIT if is_transactional else 0
    head = (attributes, len(pairs) - 1, timestamp, timestamp, producer_id, producer_epoch, base_sequence, len(pairs))
    HEADER.pack_into(batch, 0, 0, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC_V2, 0, *head)
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


_zigzag = lru_cache(maxsize=4096)(encode_varint)
_ROOM_FOR_HEADER = bytes(HEADER_SIZE)


def assemble(header: BatchHeader, payload: bytes | bytearray | memoryview) -> bytearray:
    """Put header and (already compressed) records together; batch length and CRC are computed here."""
    size = HEADER_SIZE + len(payload)
    batch = bytearray(size)
    HEADER.pack_into(batch, 0, *header._replace(batch_length=size - LOG_OVERHEAD, crc=0))
    batch[HEADER_SIZE:] = payload
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: HeaderList | None = None,
) -> bytes:
    """Encode one record with its length prefix."""
    parts = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    _add_nullable(parts, key)
    _add_nullable(parts, value)
    pairs = list(headers) if headers else []
    parts.append(encode_varint(len(pairs)))
    for name, content in pairs:
        _add_nullable(parts, name.encode("utf-8", "surrogateescape"))
        _add_nullable(parts, content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _add_nullable(parts: list[bytes], content: bytes | None) -> None:
    if content is None:
        parts.append(_NULL)
    else:
        parts.append(encode_varint(len(content)))
        parts.append(content)
