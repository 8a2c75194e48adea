"""Cleaning messages of the formats v0 and v1: they keep their magic, and a wrapper is packed anew when it loses some.

A wrapper's offset is that of its last inner message; inner offsets count from the first one kept in v1 and are absolute
in v0. Source: Kafka's MemoryRecordsBuilder, LegacyRecord.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from zlib import crc32

from protocol.records.batch import CODEC_MASK, LOG_APPEND_TIME_BIT
from protocol.records.compression import compress
from protocol.records.record import Record
from storage.compaction.batches import UNCHANGED
from storage.log.legacy import iter_legacy_records

_MAGIC_AT = 16
_ATTRIBUTES_AT = 17
_TIMESTAMP_AT = 18
_HEAD = Struct(">qiI")
_MAGIC_AND_ATTRIBUTES = Struct(">bb")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_CRC_SIZE = 4
_NULL = _INT32.pack(-1)


def legacy_keys(message: bytes) -> list[tuple[int, bytes | None]]:
    """Return (offset, key) of the messages in one top-level message."""
    return [(record.offset, record.key) for record in iter_legacy_records(message)]


def filter_legacy(
    message: bytes,
    is_newest: Callable[[bytes | None, int], bool],
    *,
    keeps_tombstones: bool,
    levels: Mapping[int, int],
) -> bytes | None:
    """Return what stays of one top-level message: UNCHANGED, a smaller wrapper, or None when nothing does."""
    records = iter_legacy_records(message)
    kept = [
        record
        for record in records
        if is_newest(record.key, record.offset) and (record.value is not None or keeps_tombstones)
    ]
    if not kept:
        return None
    if len(kept) == len(records):
        return UNCHANGED
    return _wrapper(message, kept, levels)


def _wrapper(message: bytes, kept: Sequence[Record], levels: Mapping[int, int]) -> bytes:
    magic, attributes = message[_MAGIC_AT], message[_ATTRIBUTES_AT]
    codec = attributes & CODEC_MASK
    first_offset = kept[0].offset if magic else 0
    inner_attributes = attributes & LOG_APPEND_TIME_BIT if magic else 0
    nested = b"".join(
        _message(record._replace(offset=record.offset - first_offset), magic, inner_attributes) for record in kept
    )
    if magic and attributes & LOG_APPEND_TIME_BIT:
        timestamp: int = _INT64.unpack_from(message, _TIMESTAMP_AT)[0]
    else:
        timestamp = max(record.timestamp for record in kept)
    wrapper = Record(kept[-1].offset, timestamp, None, compress(codec, nested, levels.get(codec)))
    return _message(wrapper, magic, codec | inner_attributes)


def _message(record: Record, magic: int, attributes: int) -> bytes:
    parts = [_MAGIC_AND_ATTRIBUTES.pack(magic, attributes)]
    if magic:
        parts.append(_INT64.pack(record.timestamp))
    for field in (record.key, record.value):
        parts += (_NULL,) if field is None else (_INT32.pack(len(field)), field)
    body = b"".join(parts)
    return _HEAD.pack(record.offset, len(body) + _CRC_SIZE, crc32(body)) + body
