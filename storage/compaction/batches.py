"""Writing what is left of a batch: fewer records, another base for the timestamps, or the bare header.

A rewritten batch keeps its base offset, last offset delta, leader epoch, producer fields and codec. Its base timestamp
is the delete horizon if it has one, else that of its first record, as the reference writes it; the deltas follow, so
that every record reports the time it always had. Source: Kafka's MemoryRecords.filterTo, MemoryRecordsBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    BatchHeader,
)
from protocol.records.builder import assemble
from protocol.records.compression import compress
from protocol.records.keys import KeyedRecord
from protocol.records.varint import encode_varint

UNCHANGED: Final = b""
"""Says instead of a new batch that the old bytes stay."""

_ATTRIBUTES: Final = b"\x00"  # of a record: reserved


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the header alone: it goes on saying which offsets, sequences and epoch there were."""
    return assemble(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def rebuilt_batch(
    header: BatchHeader,
    section: bytes,
    kept: Sequence[KeyedRecord],
    *,
    new_horizon_ms: int | None,
    level: int | None,
) -> bytearray:
    """Return the batch with only the `kept` records of its uncompressed section; new_horizon_ms sets a delete horizon.

    Blocking: cpu.
    """
    has_append_time = header.attributes & LOG_APPEND_TIME_BIT != 0
    attributes = header.attributes
    if new_horizon_ms is not None:
        base_timestamp = new_horizon_ms
        attributes |= DELETE_HORIZON_BIT
    elif attributes & DELETE_HORIZON_BIT:
        base_timestamp = header.base_timestamp
    elif has_append_time:
        base_timestamp = header.max_timestamp
    else:
        base_timestamp = header.base_timestamp + kept[0][3]
    if has_append_time:
        max_timestamp = header.max_timestamp
        payload = _with_delta(section, kept, max_timestamp - base_timestamp)
    else:
        newest = max([record[3] for record in kept])
        max_timestamp = max(header.base_timestamp + newest, NO_TIMESTAMP)
        shift = header.base_timestamp - base_timestamp
        payload = _shifted(section, kept, shift) if shift else _sliced(section, kept)
    codec = attributes & CODEC_MASK
    return assemble(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        compress(codec, payload, level) if codec else payload,
    )


def _sliced(section: bytes, kept: Sequence[KeyedRecord]) -> bytes:
    """Join the kept records as they are, neighbours in one piece."""
    pieces = []
    start = end = kept[0][0]
    for record in kept:
        if record[0] != end:
            pieces.append(section[start:end])
            start = record[0]
        end = record[2]
    pieces.append(section[start:end])
    return b"".join(pieces)


def _shifted(section: bytes, kept: Sequence[KeyedRecord], shift: int) -> bytes:
    """Join the kept records with `shift` added to their timestamp deltas."""
    pieces: list[bytes] = []
    for record in kept:
        delta = encode_varint(record[3] + shift)
        rest = section[record[1] : record[2]]
        pieces += (encode_varint(1 + len(delta) + len(rest)), _ATTRIBUTES, delta, rest)
    return b"".join(pieces)


def _with_delta(section: bytes, kept: Sequence[KeyedRecord], timestamp_delta: int) -> bytes:
    """Join the kept records, all with one timestamp delta."""
    head = _ATTRIBUTES + encode_varint(timestamp_delta)
    pieces: list[bytes] = []
    for record in kept:
        rest = section[record[1] : record[2]]
        pieces += (encode_varint(len(head) + len(rest)), head, rest)
    return b"".join(pieces)
