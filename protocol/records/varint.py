"""Zig-zag base-128 integers as records use them; the hot loops inline the one-byte case and call here for the rest."""

from typing import Final

from protocol.records.errors import InvalidBatch

Buffer = bytes | bytearray | memoryview

MAX_VARINT_SIZE: Final = 5
MAX_VARLONG_SIZE: Final = 10


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a 32-bit value: (value, position after it). Raises: InvalidBatch, IndexError at the end of the buffer."""
    raw, position = _read_unsigned(buffer, position, MAX_VARINT_SIZE)
    if raw > 0xFFFFFFFF:
        raise InvalidBatch("varint does not fit 32 bits")
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a 64-bit value: (value, position after it). Raises: InvalidBatch, IndexError at the end of the buffer."""
    raw, position = _read_unsigned(buffer, position, MAX_VARLONG_SIZE)
    if raw > 0xFFFFFFFFFFFFFFFF:
        raise InvalidBatch("varlong does not fit 64 bits")
    return (raw >> 1) ^ -(raw & 1), position


def _read_unsigned(buffer: Buffer, position: int, max_size: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(max_size):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
        shift += 7
    raise InvalidBatch(f"variable-length integer is longer than {max_size} bytes")


def encode_varint(value: int) -> bytes:
    """Encode a value of up to 64 bits in zig-zag form."""
    return encode_unsigned_varint((value << 1) ^ (value >> 63))


def encode_unsigned_varint(value: int) -> bytes:
    """Encode a non-negative value in base 128."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
