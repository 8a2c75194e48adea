"""Reads the metrics of a push: OTLP `MetricsData` in protobuf, as far as Kafka's clients use it.

Only gauges and sums are read; points of other kinds are passed over, since no stock client sends them. What the bytes
say is never trusted: every length is checked against what is there, and the number of points is bounded.

Source: KIP-714; opentelemetry/proto/metrics/v1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

DELTA = 1
"""The temporality of a sum whose points say what came since the last push."""

MAX_POINTS = 2_000
"""More than a client measures; reading one takes some 50 µs."""


class Malformed(ValueError):
    """The payload is no MetricsData."""


class Point(NamedTuple):
    """One number."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    is_delta: bool


_Field = tuple[int, int, "int | memoryview"]
"""Number, wire type, and the value: an integer, or the bytes of anything else."""


def read_points(payload: bytes | bytearray | memoryview) -> list[Point]:
    """Return the points of a payload. Raises Malformed."""
    points: list[Point] = []
    for resource in _messages(memoryview(payload), 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                for point in _points(metric):
                    points.append(point)
                    if len(points) > MAX_POINTS:
                        raise Malformed(f"more than {MAX_POINTS} points")
    return points


def _points(metric: memoryview) -> Iterator[Point]:
    name, data, is_delta = "", [], False
    for number, _, value in _fields(metric):
        if number == 1 and isinstance(value, memoryview):
            name = _text(value)
        elif number in (5, 7) and isinstance(value, memoryview):  # gauge, sum
            data = list(_messages(value, 1))
            is_delta = number == 7 and any(one[0] == 2 and one[2] == DELTA for one in _fields(value))
    for point in data:
        value_of: float | None = None
        attributes = []
        for number, wire, content in _fields(point):
            if number == 4 and wire == FIXED64 and isinstance(content, memoryview):
                value_of = struct.unpack("<d", content)[0]
            elif number == 6 and wire == FIXED64 and isinstance(content, memoryview):
                value_of = float(struct.unpack("<q", content)[0])
            elif number == 7 and isinstance(content, memoryview):
                attributes.append(_attribute(content))
        if value_of is not None:
            yield Point(name, tuple(sorted(attributes)), value_of, is_delta)


def _attribute(entry: memoryview) -> tuple[str, str]:
    key, text = "", ""
    for number, _, value in _fields(entry):
        if number == 1 and isinstance(value, memoryview):
            key = _text(value)
        elif number == 2 and isinstance(value, memoryview):
            text = _any_value(value)
    return key, text


def _any_value(value: memoryview) -> str:
    for number, wire, content in _fields(value):
        if number == 1 and isinstance(content, memoryview):
            return _text(content)
        if wire == VARINT and isinstance(content, int):
            if number == 2:
                return "true" if content else "false"
            return str(content - (1 << 64) if content >= 1 << 63 else content)
        if number == 4 and wire == FIXED64 and isinstance(content, memoryview):
            return repr(struct.unpack("<d", content)[0])
    return ""


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    """Yield the messages that stand under one field number."""
    for number, _, value in _fields(data):
        if number == wanted:
            if not isinstance(value, memoryview):
                raise Malformed(f"field {number} is no message")
            yield value


def _fields(data: memoryview) -> Iterator[_Field]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise Malformed(f"wire type {wire}")
        if size > end - at:
            raise Malformed(f"{size} bytes announced, {end - at} left")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise Malformed("an integer does not end")


def _text(data: memoryview) -> str:
    return bytes(data).decode("utf-8", "replace")
