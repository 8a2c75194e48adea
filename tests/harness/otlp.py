"""Writes OTLP metrics as clients push them, independent of Odradek's own reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def varint(value: int) -> bytes:
    """Write an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, body: bytes) -> bytes:
    """Write a field that holds a message, a text or bytes."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def point(value: float | int, attributes: Mapping[str, str] = {}) -> bytes:
    """Write a NumberDataPoint: a whole number as such, else a double."""
    body = varint(3 << 3 | 1) + struct.pack("<Q", 1_700_000_000)
    if isinstance(value, int):
        body += varint(6 << 3 | 1) + struct.pack("<q", value)
    else:
        body += varint(4 << 3 | 1) + struct.pack("<d", value)
    for key, text in attributes.items():
        body += message(7, message(1, key.encode()) + message(2, message(1, text.encode())))
    return body


def gauge(name: str, *points: bytes) -> bytes:
    """Write a Metric with a gauge."""
    return message(1, name.encode()) + message(5, b"".join(message(1, one) for one in points))


def total(name: str, *points: bytes, delta: bool = True) -> bytes:
    """Write a Metric with a sum."""
    data = b"".join(message(1, one) for one in points) + varint(2 << 3) + varint(1 if delta else 2)
    return message(1, name.encode()) + message(7, data)


def metrics_data(*metrics: bytes) -> bytes:
    """Write MetricsData."""
    scope = b"".join(message(2, one) for one in metrics)
    return message(1, message(1, b"") + message(2, scope))
