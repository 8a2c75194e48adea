"""The structural check of a record section that every produced batch passes through, in as little time as Python can.

Two gears. The slow one parses record after record. The fast one exploits that records of one batch tend to be of the
same shape: it lays the section out as a table with one row a record (a strided slice is one C call) and compares whole
columns: the bytes that say lengths must equal those of the record before, offset deltas must equal a precomputed run,
timestamp deltas must keep their width. If every column holds for n rows, then by induction each of the n records ends
exactly where the next one begins, which is all that parsing them would have shown. Where a column breaks, the run ends
and the slow gear decides what the next record is.
"""

from struct import unpack
from typing import Final

from protocol.records.errors import InvalidBatch
from protocol.records.varint import read_varint, read_varlong

Buffer = bytes | bytearray | memoryview


RecordScan = tuple[int, int, int]
"""(lowest timestamp delta, highest timestamp delta, index of the first record without a key or -1); a plain tuple,
because naming its fields would cost a tenth of the check of a small batch."""

_COPY_BELOW_BYTES_PER_RECORD: Final = 4096
"""Indexing bytes is faster than indexing a memoryview; above this size a record the copy costs more than it saves."""
_MIN_RECORD_SIZE: Final = 7
_MIN_RUN: Final = 4
"""Fewer rows than this are parsed faster than compared."""
_MAX_BACKOFF: Final = 256
_LOWEST_DELTA: Final = -(1 << 63)
_HIGHEST_DELTA: Final = (1 << 63) - 1

# Offset deltas 0, 1, 2, … as zig-zag varints, column by column. One byte holds deltas below 64, two below 8192;
# with three bytes the first two repeat with a period of 8192 and the third is constant within it.
_ONE_BYTE_LIMIT: Final = 64
_PERIOD: Final = 8192
_THREE_BYTE_LIMIT: Final = 1 << 20
_ONLY: Final = bytes(range(0, 128, 2))
_LOW: Final = bytes(range(128, 256, 2)) * 128
_SECOND_OF_TWO: Final = b"".join(bytes((value,)) * 64 for value in range(128))
_SECOND_OF_THREE: Final = b"".join(bytes((value,)) * 64 for value in range(128, 256))

_CONTINUED: Final = bytes(range(128, 256))
_FINAL: Final = bytes(range(128))
_EVEN: Final = bytes(range(0, 256, 2))


def scan_records(buffer: Buffer, count: int, position: int = 0) -> RecordScan:
    """Check that the buffer, from position to its end, is count well-formed records with offset deltas 0, 1, 2, ….

    Shape: the uncompressed records of one batch. count is at least 1.
    Raises: InvalidBatch naming the first fault.
    Blocking: cpu, a twentieth of a microsecond a record of a repeated shape, about one else.
    """
    size = len(buffer)
    if count * _MIN_RECORD_SIZE > size - position:
        raise InvalidBatch(f"{count} records cannot fit in {size - position} bytes")
    if count == 1:
        single = _scan_single(buffer, position, size)
        if single is not None:
            return single
    try:
        if type(buffer) is bytes:
            return _scan(buffer, count, position, size, True)
        if size - position < count * _COPY_BELOW_BYTES_PER_RECORD:
            return _scan(bytes(memoryview(buffer)[position:]), count, 0, size - position, True)
        return _scan(buffer, count, position, size, False)
    except IndexError:
        raise InvalidBatch("record runs past the end of the batch") from None


def _scan_single(data: Buffer, position: int, size: int) -> RecordScan | None:
    """Accept the most usual batch of one record (no headers, short key); None sends anything else the long way."""
    raw = data[position]
    position += 1
    if raw >= 0x80:
        byte = data[position]
        if byte >= 0x80:
            return None
        raw = raw & 0x7F | byte << 7
        position += 1
    if raw & 1 or position + (raw >> 1) != size or data[position + 1] or data[position + 2]:
        return None  # another length, or a timestamp or offset delta that is not 0
    raw = data[position + 3]
    position += 4
    first_null_key = -1
    if raw == 1:
        first_null_key = 0
    elif raw & 0x81:
        return None
    else:
        position += raw >> 1
    if position + 2 > size:
        return None
    raw = data[position]
    position += 1
    if raw >= 0x80:
        byte = data[position]
        if byte >= 0x80:
            return None
        raw = raw & 0x7F | byte << 7
        position += 1
    if raw & 1:
        return None
    position += raw >> 1
    if position + 1 != size or data[position]:
        return None
    return 0, 0, first_null_key


def _scan(data: Buffer, count: int, position: int, size: int, may_run: bool) -> RecordScan:
    index = 0
    lowest, highest = _HIGHEST_DELTA, _LOWEST_DELTA
    first_null_key = -1
    next_try, backoff = 1 if may_run else count, 1
    while index < count:
        start = position
        raw = data[position]
        position += 1
        if raw >= 0x80:
            byte = data[position]
            if byte < 0x80:
                raw = raw & 0x7F | byte << 7
                position += 1
            else:
                raw, position = _zigzag(read_varint(data, start))
        if raw & 1:
            raise InvalidBatch(f"record {index} has a negative length")
        length_end = position
        end = position + (raw >> 1)
        if end > size:
            raise InvalidBatch(f"record {index} runs past the end of the batch")
        position += 1  # attributes: reserved, Kafka ignores them too

        raw = data[position]
        timestamp_at = position
        position += 1
        if raw < 0x80:
            delta = (raw >> 1) ^ -(raw & 1)
        else:
            byte = data[position]
            if byte < 0x80:
                raw = raw & 0x7F | byte << 7
                position += 1
                delta = (raw >> 1) ^ -(raw & 1)
            else:
                delta, position = read_varlong(data, timestamp_at)
        if delta > highest:
            highest = delta
        if delta < lowest:
            lowest = delta

        offset_at = position
        raw = data[position]
        position += 1
        if raw >= 0x80:
            byte = data[position]
            if byte < 0x80:
                raw = raw & 0x7F | byte << 7
                position += 1
            else:
                raw, position = _zigzag(read_varint(data, offset_at))
        if raw != index << 1:
            raise InvalidBatch(f"record {index} has offset delta {(raw >> 1) ^ -(raw & 1)}")

        key_at = position
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = _zigzag(read_varint(data, key_at))
        key_end = position
        if not raw & 1:
            position += raw >> 1
        elif raw == 1:
            if first_null_key < 0:
                first_null_key = index
        else:
            raise InvalidBatch(f"record {index} has a key of negative length")

        value_at = position
        raw = data[position]
        position += 1
        if raw >= 0x80:
            byte = data[position]
            if byte < 0x80:
                raw = raw & 0x7F | byte << 7
                position += 1
            else:
                raw, position = _zigzag(read_varint(data, value_at))
        value_end = position
        if not raw & 1:
            position += raw >> 1
        elif raw != 1:
            raise InvalidBatch(f"record {index} has a value of negative length")

        headers_at = position
        if data[position]:
            position = _skip_headers(data, position, end, index)
        else:
            position += 1
        if position != end:
            raise InvalidBatch(f"record {index} is not as long as it says")
        index += 1

        if index >= next_try and index + _MIN_RUN <= count and data[end] == data[start]:
            columns = [*range(start, length_end), *range(key_at, key_end), *range(value_at, value_end)]
            if end - headers_at == 1:
                columns.append(headers_at)
            else:
                columns += _header_structure(data, headers_at)
            assert isinstance(data, bytes), "only bytes are sliced with a stride"
            rows, low, high = _run(data, end - start, columns, timestamp_at, offset_at, key_at, index, count)
            if rows:
                index += rows
                position = end + rows * (end - start)
                lowest = min(lowest, low)
                highest = max(highest, high)
                backoff = 1
            else:
                backoff = min(backoff * 2, _MAX_BACKOFF)
                next_try = index + backoff
    if position != size:
        raise InvalidBatch(f"{size - position} bytes follow the last record")
    return lowest, highest, first_null_key


def _run(
    data: bytes,
    stride: int,
    columns: list[int],
    timestamp_at: int,
    offset_at: int,
    offset_end: int,
    index: int,
    count: int,
) -> tuple[int, int, int]:
    """Count the records behind the model that have its shape: (rows, lowest, highest timestamp delta); 0 rows if few.

    All places are the model's own: columns holds those whose bytes must not change from row to row.
    """
    rows = min(count - index, (len(data) - columns[0]) // stride - 1)
    width = offset_end - offset_at
    if width == 1:
        rows = min(rows, _ONE_BYTE_LIMIT - index)
    elif width == 2:
        rows = min(rows, _PERIOD - index)
    elif width == 3 and index < _THREE_BYTE_LIMIT:
        rows = min(rows, _PERIOD - index % _PERIOD)
    else:
        return 0, 0, 0
    if rows < _MIN_RUN:
        return 0, 0, 0

    span = (rows + 1) * stride
    for at in columns:
        column = data[at : at + span : stride]  # the model's byte and one of each row
        same = column[:1]
        if column != same * len(column):
            rows = min(rows, len(column) - len(column.lstrip(same)) - 1)
            if rows < _MIN_RUN:
                return 0, 0, 0
            span = (rows + 1) * stride
    for place, expected in enumerate(_offset_columns(width, index, rows)):
        at = offset_at + place + stride
        column = data[at : at + rows * stride : stride]
        if column != expected[:rows]:
            rows = _common_prefix(column, expected)
            if rows < _MIN_RUN:
                return 0, 0, 0
    return _timestamps(data, timestamp_at + stride, offset_at - timestamp_at, stride, rows)


def _timestamps(data: bytes, at: int, width: int, stride: int, rows: int) -> tuple[int, int, int]:
    """Check the width of the timestamp deltas of the rows and find the extremes of those that have it."""
    columns = [data[at + place : at + place + rows * stride : stride] for place in range(width)]
    for column in columns[:-1]:
        rows = min(rows, len(column) - len(column.lstrip(_CONTINUED)))
    last = columns[-1]
    if not last.isascii():
        rows = min(rows, len(last) - len(last.lstrip(_FINAL)))
    if rows < _MIN_RUN:
        return 0, 0, 0
    raws: set[int]
    if width == 1:
        last = last[:rows]
        raws = {last[0]} if last == last[:1] * rows else set(last)
    elif width == 2:
        # Both bytes of a row side by side order as the raw value does, the continuation bit being set in all.
        pairs = bytearray(2 * rows)
        pairs[0::2] = last[:rows]
        pairs[1::2] = columns[0][:rows]
        words = unpack(f">{rows}H", pairs)
        if not columns[0][:rows].translate(None, _EVEN):
            words = (min(words), max(words))  # no delta is negative, so the extremes are the raw ones
        raws = {word >> 8 << 7 | word & 0x7F for word in words}
    else:
        raws = {_join(digits) for digits in set(zip(*(column[:rows] for column in columns), strict=True))}
    deltas = [(raw >> 1) ^ -(raw & 1) for raw in raws]
    return rows, min(deltas), max(deltas)


def _join(digits: tuple[int, ...]) -> int:
    raw = 0
    for digit in reversed(digits):
        raw = raw << 7 | digit & 0x7F
    if raw > 0xFFFFFFFFFFFFFFFF:
        raise InvalidBatch("varlong does not fit 64 bits")
    return raw


def _offset_columns(width: int, index: int, rows: int) -> tuple[bytes, ...]:
    """Spell the offset deltas index, index + 1, … as columns of their varint bytes."""
    if width == 1:
        return (_ONLY[index : index + rows],)
    phase = index % _PERIOD
    low = _LOW[phase : phase + rows]
    if width == 2:
        return low, _SECOND_OF_TWO[phase : phase + rows]
    return low, _SECOND_OF_THREE[phase : phase + rows], bytes((index // _PERIOD,)) * rows


def _common_prefix(left: bytes, right: bytes) -> int:
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


def _zigzag(read: tuple[int, int]) -> tuple[int, int]:
    """Turn a decoded value back into its raw form, so that long varints meet the same checks as short ones."""
    value, position = read
    return (value << 1) ^ (value >> 31), position


def _skip_headers(data: Buffer, position: int, end: int, index: int) -> int:
    raw = data[position]
    position += 1
    if raw >= 0x80:
        raw, position = _zigzag(read_varint(data, position - 1))
    if raw & 1:
        raise InvalidBatch(f"record {index} has a negative header count")
    count = raw >> 1
    if count > end - position:
        raise InvalidBatch(f"record {index} announces more headers than it has bytes")
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = _zigzag(read_varint(data, position - 1))
        if raw & 1:
            raise InvalidBatch(f"record {index} has a header without a key")
        position += raw >> 1
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = _zigzag(read_varint(data, position - 1))
        if not raw & 1:
            position += raw >> 1
        elif raw != 1:
            raise InvalidBatch(f"record {index} has a header value of negative length")
    return position


def _header_structure(data: Buffer, position: int) -> list[int]:
    """List the places of the length bytes among the headers of a record that was parsed already."""
    start = position
    count, position = read_varint(data, position)
    places = [*range(start, position)]
    for _ in range(2 * count):
        start = position
        size, position = read_varint(data, position)
        places += range(start, position)
        position += max(size, 0)
    return places


def largest_body(section: Buffer, count: int) -> int:
    """Find the largest record body (what the length prefix counts) of a section that scan_records accepted."""
    largest = position = 0
    for _ in range(count):
        length, position = read_varint(section, position)
        largest = max(largest, length)
        position += length
    return largest
