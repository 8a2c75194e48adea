"""Stored messages as JSON in the form that Kafka's tools print: names in camel case, bytes as base64, ids as text.

A tagged field is left out while it has its default. Source: the generator's JsonConverterGenerator.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from functools import cache
from json.encoder import encode_basestring
from typing import Any

from protocol.message import FieldSpec, field_specs
from protocol.primitives import BYTES, UUID, ArrayType, WireType
from protocol.uuids import format_uuid

_ESCAPE = re.compile(r"\\(?:u00[0-9a-f]{2}|.)")
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7


@cache
def _fields(message_type: Any) -> list[tuple[str, str, FieldSpec]]:
    return [(name, camel_case(name), spec) for name, spec in field_specs(message_type).items()]


@cache
def camel_case(name: str) -> str:
    """Turn a name of ours into the schema's."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def to_json(message: Any, version: int) -> dict[str, Any]:
    """Return a message of that version as what JSON can say."""
    shown: dict[str, Any] = {}
    for name, shown_name, spec in _fields(message.__class__):
        if spec.is_in(version):
            value = getattr(message, name)
            if spec.tag is None or value != spec.make_default():
                shown[shown_name] = _value(spec.codec, value, version)
    return shown


def _value(codec: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(codec, ArrayType):
        return [_value(codec.element, element, version) for element in value]
    if not isinstance(codec, WireType):
        return to_json(value, version)
    if codec is UUID:
        return format_uuid(value)
    return b64encode(value).decode("ascii") if codec is BYTES else value


def json_text(value: Any) -> str:
    """Write JSON without spaces, with numbers and escapes as Java's Jackson writes them."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _ESCAPE.sub(_raise_hex, encode_basestring(value))
        case float():
            return java_double(value)
        case dict():
            return "{" + ",".join(f"{json_text(key)}:{json_text(entry)}" for key, entry in value.items()) + "}"
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
    return str(value)


def _raise_hex(escape: re.Match[str]) -> str:
    return f"\\u{escape[0][2:].upper()}" if escape[0].startswith("\\u") else escape[0]


def java_double(value: float) -> str:
    """Write a number as Java's Double.toString: scientific from 10^7 on and below 10^-3."""
    if math.isnan(value) or math.isinf(value):
        return f'"{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return repr(float(value))
    mantissa, exponent = repr(float(value)), 0
    if "e" in mantissa:
        mantissa, power = mantissa.split("e")
        exponent = int(power)
    sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    exponent += len(whole) - 1
    digits = (whole + fraction).rstrip("0")
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    return f"{sign}{stripped[0]}.{stripped[1:] or '0'}E{exponent}"
