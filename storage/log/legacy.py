"""Records of legacy messages (v0, v1), for lookups in and compaction of logs that older brokers wrote.

A message: offset i64, size i32, crc u32, magic i8, attributes i8, [timestamp i64 in v1], key, value with i32 lengths.
A compressed message holds a nested set: in v1 its inner offsets count from 0 and the outer offset is the last one's; in
v0 they are absolute. Under LogAppendTime (bit 3) the wrapper's timestamp counts for all inner messages. A wrapper in v1
with offset 0 is one of old librdkafka's, whose inner offsets count as they are. Source: AbstractLegacyRecordBatch.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple
from zlib import crc32

from protocol.records.batch import CODEC_MASK, LOG_APPEND_TIME_BIT
from protocol.records.compression import Codec, decompress, mend_lz4_checksum
from protocol.records.errors import CorruptBatch
from protocol.records.record import Record

MAX_NESTED_BYTES = 1 << 28  # of one compressed message; far above any legal message size

_HEAD = Struct(">qiIbb")
_CRC_AT = 12
_CHECKED_FROM = 16
_UINT32 = Struct(">I")
_INT64 = Struct(">q")
_INT32 = Struct(">i")


class LegacyMessage(NamedTuple):
    """A record with what its own message says of itself, be it a message within another."""

    record: Record
    crc: int
    is_valid: bool


class _Unpacked(NamedTuple):
    """Records, and where the message of each begins in `data`."""

    records: list[Record]
    data: bytes
    starts: list[int]


def iter_legacy_records(message: bytes) -> list[Record]:
    """Return the records of one whole top-level message. Raises: CorruptBatch, and what decompression raises."""
    return _unpack(message).records


def iter_legacy_messages(message: bytes) -> list[LegacyMessage]:
    """Return the records of one whole top-level message with their checksums; raises as iter_legacy_records."""
    records, data, starts = _unpack(message)
    found = []
    for record, start, end in zip(records, starts, [*starts[1:], len(data)], strict=True):
        crc = _UINT32.unpack_from(data, start + _CRC_AT)[0]
        found.append(LegacyMessage(record, crc, crc32(data[start + _CHECKED_FROM : end]) == crc))
    return found


def _unpack(message: bytes) -> _Unpacked:
    try:
        return _records(message)
    except StructError as error:
        raise CorruptBatch("a legacy message is cut short") from error


def _records(message: bytes) -> _Unpacked:
    outer, magic, attributes, _ = _message(message, 0)
    codec = attributes & CODEC_MASK
    if not codec:
        return _Unpacked([outer], message, [0])
    if outer.value is None or codec >= Codec.ZSTD:
        raise CorruptBatch(f"a compressed legacy message at offset {outer.offset} has no value or codec {codec}")
    packed = mend_lz4_checksum(outer.value) if not magic and codec == Codec.LZ4 else outer.value
    nested = bytes(decompress(codec, packed, max_size=MAX_NESTED_BYTES))
    records, starts, position = [], [], 0
    while position < len(nested):
        starts.append(position)
        record, _, inner_attributes, position = _message(nested, position)
        if inner_attributes & CODEC_MASK:
            raise CorruptBatch(f"a message within a compressed one at offset {outer.offset} is compressed too")
        records.append(record)
    if not records:
        raise CorruptBatch(f"a compressed legacy message at offset {outer.offset} holds nothing")
    if magic == 1:
        shift = outer.offset - records[-1].offset if outer.offset else 0
        if shift < 0:
            raise CorruptBatch(f"a compressed legacy message at offset {outer.offset} holds more offsets than that")
        records = [record._replace(offset=record.offset + shift) for record in records]
        if attributes & LOG_APPEND_TIME_BIT:
            records = [record._replace(timestamp=outer.timestamp) for record in records]
    return _Unpacked(records, nested, starts)


def _message(data: bytes, position: int) -> tuple[Record, int, int, int]:
    """Return (record, magic, attributes, position of the next message)."""
    offset, size, _, magic, attributes = _HEAD.unpack_from(data, position)
    end = position + 12 + size
    position += _HEAD.size
    timestamp = -1
    if magic == 1:
        timestamp = _INT64.unpack_from(data, position)[0]
        position += 8
    key, position = _nullable(data, position)
    value, position = _nullable(data, position)
    if position != end:
        raise CorruptBatch(f"a legacy message at offset {offset} does not fill its size")
    return Record(offset, timestamp, key, value), magic, attributes, end


def _nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length = _INT32.unpack_from(data, position)[0]
    position += 4
    if length < 0:
        return None, position
    if position + length > len(data):
        raise CorruptBatch("a legacy field runs past its message")
    return data[position : position + length], position + length
