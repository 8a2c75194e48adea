"""The walk that compaction takes through a record section: where records lie, their keys, whether they have a value.

Values and headers are stepped over, not read.
"""

from protocol.records.errors import InvalidBatch
from protocol.records.varint import read_varint, read_varlong

KeyedRecord = tuple[int, int, int, int, int, bytes | None, bool]
"""(start, where the offset delta begins, end, timestamp delta, offset delta, key, has a value).

Places are positions in the section; what lies between the second and the third does not depend on time. A plain tuple:
naming the fields would cost a sixth of the walk.
"""


def keyed_records(data: bytes, count: int, position: int, end: int) -> list[KeyedRecord]:
    """Walk `count` records that fill data[position:end]. Raises: InvalidBatch. Blocking: cpu, 1 us a record."""
    records: list[KeyedRecord] = []
    append = records.append
    try:
        for _ in range(count):
            start = position
            raw = data[position]
            position += 1
            if raw >= 0x80:
                byte = data[position]
                if byte < 0x80:
                    raw = raw & 0x7F | byte << 7
                    position += 1
                    length = (raw >> 1) ^ -(raw & 1)
                else:
                    length, position = read_varint(data, start)
            else:
                length = (raw >> 1) ^ -(raw & 1)
            following = position + length
            if length < 0 or following > end:
                raise InvalidBatch(f"record of {length} bytes in {end - position}")

            position += 1  # attributes: reserved
            raw = data[position]
            if raw < 0x80:
                timestamp_delta = (raw >> 1) ^ -(raw & 1)
                position += 1
            elif (byte := data[position + 1]) < 0x80:
                raw = raw & 0x7F | byte << 7
                timestamp_delta = (raw >> 1) ^ -(raw & 1)
                position += 2
            else:
                timestamp_delta, position = read_varlong(data, position)

            offset_at = position
            raw = data[position]
            if raw < 0x80:
                offset_delta = (raw >> 1) ^ -(raw & 1)
                position += 1
            elif (byte := data[position + 1]) < 0x80:
                raw = raw & 0x7F | byte << 7
                offset_delta = (raw >> 1) ^ -(raw & 1)
                position += 2
            else:
                offset_delta, position = read_varint(data, position)

            raw = data[position]
            if raw < 0x80:
                size = (raw >> 1) ^ -(raw & 1)
                position += 1
            else:
                size, position = read_varint(data, position)
            if size >= 0:
                key_end = position + size
                key = data[position:key_end]
                position = key_end
            else:
                key = None
            # The value's length is read even if it is not used: only its sign matters, and that is in the first byte.
            if position >= following:
                raise InvalidBatch("record ends before its value")
            raw = data[position]
            append((start, offset_at, following, timestamp_delta, offset_delta, key, not raw & 1))
            position = following
    except IndexError:
        raise InvalidBatch("record runs past the end of the batch") from None
    if position != end:
        raise InvalidBatch(f"{end - position} bytes follow the last record")
    return records
