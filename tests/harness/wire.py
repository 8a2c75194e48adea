"""Encode requests and decode answers by kio's generated schemas, strictly and independent of Odradek's own codec.

kio supplies only the field tables; the bytes are written and read here, so that a test may send what a polite
library refuses to (unknown tags, null where none is legal) and sees what a lenient one hides (left-over bytes, tags
that the version does not define or that are out of order).

Names are Kafka's in snake case. Values are plain: uuid = 16 bytes, times = int milliseconds (names end in ``_ms``),
records = bytes, structs = :class:`Struct`. A field left out gets its schema default, else the empty value (null if
the field is nullable).
"""

import dataclasses
import datetime
import functools
import struct
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map

API_KEYS: Mapping[str, int] = {name: key for key, name in api_key_map.items()}

_INTEGERS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "int64": ">q",
    "float64": ">d",
    "error_code": ">h",
    "timedelta_i32": ">i",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}


class WireError(AssertionError):
    """The bytes of an answer do not follow the schema of the version that was asked for."""


class Struct(types.SimpleNamespace):
    """A decoded struct; ``seen_tags`` lists the tag numbers that were present, in the order of the bytes."""

    seen_tags: list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One schema row: how a field of one version is written."""

    name: str
    kafka_type: str  # a primitive's name, or "struct"
    struct: type | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any


@functools.cache
def fields_of(schema: type) -> tuple[Field, ...]:
    """List the fields of a kio schema class in wire order."""
    hints = typing.get_type_hints(schema)
    return tuple(_field(row, hints[row.name]) for row in dataclasses.fields(schema))


def _field(row: Any, hint: Any) -> Field:
    inner, is_nullable = _without_none(hint)
    is_array = typing.get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(typing.get_args(inner)[0])
    nested = inner if dataclasses.is_dataclass(inner) else None
    kafka_type = "struct" if nested else row.metadata["kafka_type"]
    if kafka_type in ("uuid", "datetime_i64", "error_code"):
        is_nullable = is_nullable and is_array  # None is only kio's word for the zero id or for -1
    name = row.name
    if kafka_type.startswith(("timedelta", "datetime")):
        name += "_ms"
    default = row.default if row.default is not dataclasses.MISSING else dataclasses.MISSING
    return Field(name, kafka_type, nested, is_array, is_nullable, row.metadata.get("tag"), default)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        rest = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return rest[0], len(rest) < len(typing.get_args(hint))
    return hint, False


# --- primitives -----------------------------------------------------------------------------------------------


def uvarint(value: int) -> bytes:
    """Write an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    """A cursor over one frame that refuses to read past its end."""

    def __init__(self, data: bytes, position: int = 0):
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise WireError(f"{size} bytes wanted at {self.position} of {len(self.data)}")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7

    def length(self, layout: str, flexible: bool) -> int:
        """Read a length or count; -1 means null."""
        return self.uvarint() - 1 if flexible else self.number(layout)

    def finish(self) -> None:
        if self.position != len(self.data):
            raise WireError(f"{len(self.data) - self.position} bytes left over: {self.data[self.position :][:40]!r}")


def _write_length(value: int, layout: str, flexible: bool) -> bytes:
    return uvarint(value + 1) if flexible else struct.pack(layout, value)


def _write_primitive(field: Field, value: Any, flexible: bool) -> bytes:
    kind = field.kafka_type
    if kind in _INTEGERS:
        return struct.pack(_INTEGERS[kind], value)
    if kind == "uuid":
        return bytes(value)
    layout = ">h" if kind == "string" else ">i"
    if value is None:
        return _write_length(-1, layout, flexible)
    raw = value.encode() if isinstance(value, str) else bytes(value)
    return _write_length(len(raw), layout, flexible) + raw


def _read_primitive(field: Field, reader: Reader, flexible: bool) -> Any:
    kind = field.kafka_type
    if kind in _INTEGERS:
        return reader.number(_INTEGERS[kind])
    if kind == "uuid":
        return reader.take(16)
    size = reader.length(">h" if kind == "string" else ">i", flexible)
    if size < 0:
        if size != -1 or not (field.is_nullable or field.is_array):
            raise WireError(f"{field.name}: length {size} where null is not legal")
        return None
    raw = reader.take(size)
    return raw.decode() if kind == "string" else raw


# --- structs --------------------------------------------------------------------------------------------------


def encode_struct(schema: type, values: Mapping[str, Any]) -> bytes:
    """Write a struct; the pseudo field ``extra_tags`` ({number: bytes}) adds tags that the schema does not know."""
    flexible = bool(schema.__flexible__)
    out: list[bytes] = []
    tags: dict[int, bytes] = dict(values.get("extra_tags", {}))
    fields = fields_of(schema)
    unknown = set(values) - {field.name for field in fields} - {"extra_tags"}
    if unknown:
        raise TypeError(f"{schema.__module__}.{schema.__name__} has no field {sorted(unknown)}")
    for field in fields:
        if field.tag is None:
            value = values[field.name] if field.name in values else _default(field)
            out.append(_encode_field(field, value, flexible))
        elif field.name in values:
            tags[field.tag] = _encode_field(field, values[field.name], flexible)
    if flexible:
        out.append(encode_tags(tags))
    return b"".join(out)


def encode_tags(tags: Mapping[int, bytes]) -> bytes:
    """Write a tagged-field section."""
    return uvarint(len(tags)) + b"".join(
        uvarint(number) + uvarint(len(tags[number])) + tags[number] for number in sorted(tags)
    )


def _encode_field(field: Field, value: Any, flexible: bool) -> bytes:
    write: Callable[[Any], bytes]
    if field.struct is None:

        def write(item: Any) -> bytes:
            return _write_primitive(field, item, flexible)
    else:
        nested = field.struct

        def write(item: Any) -> bytes:
            return encode_struct(nested, item if isinstance(item, Mapping) else vars(item))

    if field.is_array:
        if value is None:
            return _write_length(-1, ">i", flexible)
        return _write_length(len(value), ">i", flexible) + b"".join(map(write, value))
    if field.struct is not None and field.is_nullable:
        return b"\xff" if value is None else b"\x01" + write(value)
    return write(value)


def decode_struct(schema: type, reader: Reader) -> Struct:
    """Read a struct and fail on anything that its version does not define."""
    flexible = bool(schema.__flexible__)
    result = Struct(seen_tags=[])
    tagged: dict[int, Field] = {}
    for field in fields_of(schema):
        if field.tag is None:
            setattr(result, field.name, _decode_field(field, reader, flexible))
        else:
            tagged[field.tag] = field
            setattr(result, field.name, _plain(field.default) if field.default is not dataclasses.MISSING else None)
    if flexible:
        _decode_tags(result, tagged, reader, schema)
    return result


def _decode_tags(result: Struct, tagged: dict[int, Field], reader: Reader, schema: type) -> None:
    for _ in range(reader.uvarint()):
        number = reader.uvarint()
        section = Reader(reader.take(reader.uvarint()))
        if number not in tagged:
            raise WireError(f"tag {number} is not defined in {schema.__module__}.{schema.__name__}")
        if result.seen_tags and result.seen_tags[-1] >= number:
            raise WireError(f"tag {number} after {result.seen_tags}")
        result.seen_tags.append(number)
        setattr(result, tagged[number].name, _decode_field(tagged[number], section, True))
        section.finish()


def _decode_field(field: Field, reader: Reader, flexible: bool) -> Any:
    def read() -> Any:
        if field.struct is None:
            return _read_primitive(field, reader, flexible)
        return decode_struct(field.struct, reader)

    if field.is_array:
        count = reader.length(">i", flexible)
        if count < 0:
            if count != -1 or not field.is_nullable:
                raise WireError(f"{field.name}: count {count} where null is not legal")
            return None
        return [read() for _ in range(count)]
    if field.struct is not None and field.is_nullable:
        return None if reader.number(">b") < 0 else read()
    return read()


def _default(field: Field) -> Any:
    if field.default is not dataclasses.MISSING:
        if field.default is None and field.kafka_type == "datetime_i64":
            return -1
        if field.default is None and field.kafka_type == "uuid" and not field.is_array:
            return bytes(16)
        return _plain(field.default)
    if field.is_nullable:
        return None
    if field.is_array:
        return []
    if field.struct is not None:
        return {}
    empty: dict[str, Any] = {"string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "bool": False}
    return empty.get(field.kafka_type, 0)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


# --- messages -------------------------------------------------------------------------------------------------


@functools.cache
def request_schema(api: str, version: int) -> type:
    """Look up the request of an API by its snake-case name."""
    return load_request_schema(API_KEYS[api], version)


@functools.cache
def response_schema(api: str, version: int) -> type:
    """Look up the response of an API by its snake-case name."""
    return load_response_schema(API_KEYS[api], version)


def encode_body(api: str, version: int, /, **values: Any) -> bytes:
    """Write a request body."""
    return encode_struct(request_schema(api, version), values)


def encode_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, *, flexible: bool, tags: Mapping = {}
) -> bytes:
    """Write request header v1, or v2 when the version is flexible."""
    out = struct.pack(">hhi", api_key, version, correlation_id)
    if client_id is None:
        out += struct.pack(">h", -1)
    else:
        raw = client_id.encode()
        out += struct.pack(">h", len(raw)) + raw
    return out + encode_tags(tags) if flexible else out


def decode_answer(api: str, version: int, frame: bytes) -> tuple[int, Struct]:
    """Read a whole response frame (without its length); every byte must be consumed. ApiVersions has no header tags."""
    schema = response_schema(api, version)
    reader = Reader(frame)
    correlation_id = reader.number(">i")
    if schema.__flexible__ and api != "api_versions" and reader.uvarint() != 0:
        raise WireError("the response header carries tags")
    body = decode_struct(schema, reader)
    reader.finish()
    return correlation_id, body
