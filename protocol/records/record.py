"""Iterate the records of a batch, for coordinators, compaction and refusals; find one by time, for lookups."""

from collections.abc import Iterator
from typing import NamedTuple

from protocol.records.batch import HEADER_SIZE, BatchHeader, TimestampType, parse_header
from protocol.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from protocol.records.errors import BodyTooLarge, CorruptBatch, InvalidBatch
from protocol.records.varint import read_varint, read_varlong

Buffer = bytes | bytearray | memoryview
Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


MAX_INT32 = (1 << 31) - 1
_new_record = tuple.__new__


def record_section(
    buffer: Buffer, position: int, header: BatchHeader, *, max_size: int = MAX_DECOMPRESSED_BYTES
) -> Buffer:
    """Return the uncompressed records of the batch at position; a view where nothing had to be inflated.

    Raises: CorruptBatch if the batch is cut or its payload damaged, DecompressedTooLarge beyond max_size.
    """
    end = position + header.size_bytes
    if end > len(buffer):
        raise CorruptBatch(f"batch of {header.size_bytes} bytes in {len(buffer) - position}")
    section = memoryview(buffer)[position + HEADER_SIZE : end]
    return decompress(header.codec, section, max_size=max_size) if header.codec else section


def iter_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_size: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Yield the records of the batch at position, inflating it first if it is compressed.

    Gaps between offsets (compaction) and an empty batch are legal. Under LogAppendTime every record reports the
    batch's max timestamp.
    Raises: InvalidBatch for malformed records, bytes after the last one included; else as record_section.
    """
    if header is None:
        header = parse_header(buffer, position)
    return iter_section(header, record_section(buffer, position, header, max_size=max_size))


def iter_section(header: BatchHeader, section: Buffer) -> Iterator[Record]:
    """Yield the records of an uncompressed section that belongs to header."""
    data = section if isinstance(section, bytes) else bytes(section)
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    position = 0
    try:
        for _ in range(header.record_count):
            record, position = _read_record(data, position, header.base_offset, header.base_timestamp)
            yield record if append_time is None else record._replace(timestamp=append_time)
    except IndexError:
        raise InvalidBatch("record runs past the end of the batch") from None
    if position != len(data):
        raise InvalidBatch(f"{len(data) - position} bytes follow the last record")


def find_by_timestamp(
    header: BatchHeader, section: Buffer, timestamp: int, start_offset: int, *, max_body_bytes: int = MAX_INT32
) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record with that timestamp or a later one, at or above start_offset.

    Looks at nothing else of the records, which is a multiple faster than reading them. Raises: InvalidBatch;
    BodyTooLarge for a record before or at the one that is found.
    """
    data = section if isinstance(section, bytes) else bytes(section)
    size = len(data)
    has_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    if has_append_time and header.max_timestamp < timestamp:
        return None
    least_timestamp_delta = timestamp - header.base_timestamp
    least_offset_delta = start_offset - header.base_offset
    position = 0
    try:
        for _ in range(header.record_count):
            raw = data[position]
            if raw < 0x80:
                length = (raw >> 1) ^ -(raw & 1)
                position += 1
            else:
                length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > size:
                raise InvalidBatch(f"record of {length} bytes in {size - position}")
            if length > max_body_bytes:
                raise BodyTooLarge(length, max_body_bytes)
            position += 1
            raw = data[position]
            if raw < 0x80:
                timestamp_delta = (raw >> 1) ^ -(raw & 1)
                position += 1
            else:
                timestamp_delta, position = read_varlong(data, position)
            if has_append_time or timestamp_delta >= least_timestamp_delta:
                offset_delta, _ = read_varint(data, position)
                if offset_delta >= least_offset_delta:
                    found = header.max_timestamp if has_append_time else header.base_timestamp + timestamp_delta
                    return found, header.base_offset + offset_delta
            position = end
    except IndexError:
        raise InvalidBatch("record runs past the end of the batch") from None
    return None


def _read_record(data: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """Read one record; one-byte varints, by far the most frequent, are decoded in line."""
    length, position = read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidBatch(f"record of {length} bytes in {len(data) - position}")
    position += 1
    raw = data[position]
    if raw < 0x80:
        timestamp_delta = (raw >> 1) ^ -(raw & 1)
        position += 1
    else:
        timestamp_delta, position = read_varlong(data, position)
    raw = data[position]
    if raw < 0x80:
        offset_delta = (raw >> 1) ^ -(raw & 1)
        position += 1
    else:
        offset_delta, position = read_varint(data, position)
    key, position = _read_nullable(data, position, end)
    value, position = _read_nullable(data, position, end)
    headers: Headers = ()
    if data[position]:
        headers, position = _read_headers(data, position, end)
    else:
        position += 1
    if position != end:
        raise InvalidBatch(f"record ends {end - position} bytes off its length")
    fields = (base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, headers)
    return _new_record(Record, fields), position


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise InvalidBatch(f"record announces {count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_nullable(data, position, end)
        if name is None:
            raise InvalidBatch("record header has no key")
        content, position = _read_nullable(data, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return tuple(headers), position


def _read_nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    raw = data[position]
    if raw < 0x80:
        size = (raw >> 1) ^ -(raw & 1)
        position += 1
    else:
        size, position = read_varint(data, position)
    following = position + size
    if size >= 0 and following <= end:
        return data[position:following], following
    if size == -1:
        return None, position
    raise InvalidBatch(f"field of {size} bytes in a record with {end - position} left")
