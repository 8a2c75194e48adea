"""The atoms of the protocol as construct classes, and the wire types that declarations name.

A wire type (`STRING`, `array(INT32)`, …) says what a field is in every version; its `atom` is the construct for one
version, where flexible versions use compact lengths. Reading obeys the bounds of the protocol: no length is believed
before it is compared with the bytes left, and nothing but `ProtocolError` or a construct error leaves this module.
Source: KIP-482 for compact lengths and tagged fields, KIP-893 for nullable structs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from construct import Bytes, Construct, FormatField, SizeofError, stream_read, stream_size, stream_write

from protocol.errors import ProtocolError

MAX_ARRAY_LENGTH = 1_000_000
"""More elements than any sane request has; a longer array is refused before it is read."""
MAX_TAGGED_FIELDS = 10_000
MAX_STRING_BYTES = 0x7FFF
"""Compact strings obey the bound that the int16 length of plain strings implies."""
UVARINT_BYTES = 5
SMALL_UVARINT = 0x7F


class Blob(Protocol):
    """Bytes that are not in memory, a region of a file for example: only their length matters until they are sent."""

    def __len__(self) -> int:
        """Return the length in bytes."""
        ...


RecordData = bytes | bytearray | memoryview | Blob
"""Records: a memoryview of the frame once decoded, anything of the four to encode."""


def bytes_left(stream: Any) -> int:
    """Return how much of the stream is unread."""
    size: int = stream_size(stream)
    return size - int(stream.tell())


def encode_uvarint(value: int) -> bytes:
    """Return the unsigned varint of a value below 2**32."""
    assert 0 <= value < 1 << 32
    out = bytearray()
    while value > SMALL_UVARINT:
        out.append(value & SMALL_UVARINT | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class UVarInt(Construct):  # type: ignore[misc]  # construct is untyped
    """An unsigned varint of at most 32 bits in at most five bytes."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for index in range(UVARINT_BYTES):
            byte = int(stream_read(stream, 1, path)[0])
            value |= (byte & SMALL_UVARINT) << 7 * index
            if byte <= SMALL_UVARINT:
                if value >= 1 << 32:
                    break
                return value
        raise ProtocolError("varint longer than 32 bits")

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        encoded = encode_uvarint(obj)
        stream_write(stream, encoded, len(encoded), path)
        return obj

    def _sizeof(self, context: Any, path: str) -> int:
        raise SizeofError("varints have no fixed size", path=path)


class Boolean(FormatField):  # type: ignore[misc]  # construct is untyped
    """One byte; zero is false and anything else true."""

    def __init__(self) -> None:
        super().__init__(">", "?")


UVARINT = UVarInt()
INT8_ATOM = FormatField(">", "b")
INT16_ATOM = FormatField(">", "h")
INT32_ATOM = FormatField(">", "l")


class Sized(Construct):  # type: ignore[misc]  # construct is untyped
    """What a length precedes: int16 or int32 and -1 for null, or compact (length + 1) and 0 for null."""

    def __init__(self, plain_length: Any, *, compact: bool, nullable: bool) -> None:
        super().__init__()
        self.plain_length = plain_length
        self.compact = compact
        self.nullable = nullable

    def read_length(self, stream: Any, path: str) -> int | None:
        """Read the length; None stands for null, which must be allowed."""
        if self.compact:
            length = UVARINT._parse(stream, None, path) - 1
        else:
            length = self.plain_length._parse(stream, None, path)
        if length >= 0:
            return int(length)
        if not self.nullable:
            raise ProtocolError(f"null is not allowed here: {path}")
        return None

    def write_length(self, length: int | None, stream: Any, path: str) -> None:
        """Write the length; None stands for null, which must be allowed."""
        if length is None:
            if not self.nullable:
                raise ValueError(f"null is not allowed here: {path}")
            length = -1
        if self.compact:
            UVARINT._build(length + 1, stream, None, path)
        else:
            self.plain_length._build(length, stream, None, path)


class Text(Sized):
    """A UTF-8 string."""

    def __init__(self, *, compact: bool, nullable: bool) -> None:
        super().__init__(INT16_ATOM, compact=compact, nullable=nullable)

    def _parse(self, stream: Any, context: Any, path: str) -> str | None:
        length = self.read_length(stream, path)
        if length is None:
            return None
        if length > min(MAX_STRING_BYTES, bytes_left(stream)):
            raise ProtocolError(f"string of {length} bytes: {path}")
        try:
            return str(stream_read(stream, length, path), "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string is not UTF-8: {path}") from error

    def _build(self, obj: str | None, stream: Any, context: Any, path: str) -> str | None:
        if obj is None:
            self.write_length(None, stream, path)
            return obj
        encoded = obj.encode()
        if len(encoded) > MAX_STRING_BYTES:
            raise ValueError(f"string of {len(encoded)} bytes: {path}")
        self.write_length(len(encoded), stream, path)
        stream_write(stream, encoded, len(encoded), path)
        return obj


class Binary(Sized):
    """A byte string, or the records of a partition; only the compiled twin avoids the copy for the latter."""

    def __init__(self, *, compact: bool, nullable: bool, is_records: bool = False) -> None:
        super().__init__(INT32_ATOM, compact=compact, nullable=nullable)
        self.is_records = is_records

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | memoryview | None:
        length = self.read_length(stream, path)
        if length is None:
            return None
        if length > bytes_left(stream):
            raise ProtocolError(f"{length} bytes announced, {bytes_left(stream)} left: {path}")
        data = bytes(stream_read(stream, length, path))
        return memoryview(data) if self.is_records else data

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.write_length(None if obj is None else len(obj), stream, path)
        if obj is not None:
            stream_write(stream, obj, len(obj), path)
        return obj


class Sequence(Sized):
    """An array of one kind of element."""

    def __init__(self, element: Any, *, compact: bool, nullable: bool) -> None:
        super().__init__(INT32_ATOM, compact=compact, nullable=nullable)
        self.element = element

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        length = self.read_length(stream, path)
        if length is None:
            return None
        if length > min(MAX_ARRAY_LENGTH, bytes_left(stream)):
            raise ProtocolError(f"array of {length} elements: {path}")
        return [self.element._parsereport(stream, context, path) for _ in range(length)]

    def _build(self, obj: list[Any] | None, stream: Any, context: Any, path: str) -> list[Any] | None:
        self.write_length(None if obj is None else len(obj), stream, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj


class Presence(Construct):  # type: ignore[misc]  # construct is untyped
    """A struct that may be absent: one byte, then the struct. Absent is -1, but 0 when the field is a tag."""

    def __init__(self, struct: Any, *, is_tagged: bool) -> None:
        super().__init__()
        self.struct = struct
        self.is_tagged = is_tagged

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        presence = INT8_ATOM._parse(stream, context, path)
        if presence == 0 if self.is_tagged else presence < 0:
            return None
        return self.struct._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        absent = 0 if self.is_tagged else -1
        INT8_ATOM._build(absent if obj is None else 1, stream, context, path)
        if obj is not None:
            self.struct._build(obj, stream, context, path)
        return obj


@dataclass(frozen=True, slots=True)
class TaggedField:
    """One known tag of a section: its number, the field it fills, its construct and what it means to leave it out."""

    tag: int
    name: str
    atom: Any
    make_default: Callable[[], Any]


class TaggedSection(Construct):  # type: ignore[misc]  # construct is untyped
    """The tagged fields at the end of a flexible struct: known ones by name, unknown ones skipped."""

    def __init__(self, fields: Iterable[TaggedField]) -> None:
        super().__init__()
        self.fields = tuple(sorted(fields, key=lambda field: field.tag))
        self.by_tag = {field.tag: field for field in self.fields}
        assert len(self.by_tag) == len(self.fields), "tag numbers are unique"

    def _parse(self, stream: Any, context: Any, path: str) -> dict[str, Any]:
        count = UVARINT._parse(stream, context, path)
        if count > MAX_TAGGED_FIELDS:
            raise ProtocolError(f"{count} tagged fields: {path}")
        values = {field.name: field.make_default() for field in self.fields}
        previous = -1
        for _ in range(count):
            previous = self._parse_one(values, previous, stream, context, path)
        return values

    def _parse_one(self, values: dict[str, Any], previous: int, stream: Any, context: Any, path: str) -> int:
        tag = int(UVARINT._parse(stream, context, path))
        if tag <= previous:
            raise ProtocolError(f"tag {tag} after tag {previous}: {path}")
        size = UVARINT._parse(stream, context, path)
        if size > bytes_left(stream):
            raise ProtocolError(f"tag {tag} of {size} bytes, {bytes_left(stream)} left: {path}")
        end = stream.tell() + size
        field = self.by_tag.get(tag)
        if field is None:
            stream_read(stream, size, path)
        else:
            values[field.name] = field.atom._parsereport(stream, context, path)
        if stream.tell() != end:
            raise ProtocolError(f"tag {tag} does not fill its {size} bytes: {path}")
        return tag

    def _build(self, obj: dict[str, Any], stream: Any, context: Any, path: str) -> dict[str, Any]:
        present = [(field.tag, payload) for field in self.fields if (payload := self._payload(field, obj)) is not None]
        UVARINT._build(len(present), stream, context, path)
        for tag, payload in present:
            UVARINT._build(tag, stream, context, path)
            UVARINT._build(len(payload), stream, context, path)
            stream_write(stream, payload, len(payload), path)
        return obj

    @staticmethod
    def _payload(field: TaggedField, values: dict[str, Any]) -> bytes | None:
        """Return the bytes of a tag, None when its value is the default and the tag is left out."""
        value, default = values[field.name], field.make_default()
        if value is None or default is None:
            return None if value is default else bytes(field.atom.build(value))
        payload = bytes(field.atom.build(value))
        return None if payload == field.atom.build(default) else payload


@dataclass(frozen=True, slots=True)
class WireType:
    """What a field is in every version: its default, and its construct by (flexible, nullable)."""

    name: str
    default: Any
    atom: Callable[[bool, bool], Any]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of a wire type or of a message struct."""

    element: Any


def array(element: Any) -> ArrayType:
    """Declare an array of a wire type or of a message struct."""
    return ArrayType(element)


def _fixed(name: str, default: Any, atom: Any) -> WireType:
    return WireType(name, default, lambda flexible, nullable: atom)


BOOL = _fixed("bool", False, Boolean())
INT8 = _fixed("int8", 0, INT8_ATOM)
INT16 = _fixed("int16", 0, INT16_ATOM)
INT32 = _fixed("int32", 0, INT32_ATOM)
INT64 = _fixed("int64", 0, FormatField(">", "q"))
UINT16 = _fixed("uint16", 0, FormatField(">", "H"))
UINT32 = _fixed("uint32", 0, FormatField(">", "L"))
FLOAT64 = _fixed("float64", 0.0, FormatField(">", "d"))
UUID = _fixed("uuid", bytes(16), Bytes(16))
STRING = WireType("string", "", lambda flexible, nullable: Text(compact=flexible, nullable=nullable))
BYTES = WireType("bytes", b"", lambda flexible, nullable: Binary(compact=flexible, nullable=nullable))
RECORDS = WireType(
    "records", b"", lambda flexible, nullable: Binary(compact=flexible, nullable=nullable, is_records=True)
)
