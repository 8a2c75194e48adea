"""Pushed metrics are read whole or refused, whatever the bytes are."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.telemetry import otlp
from broker.telemetry.otlp import Malformed, Point, read_points
from tests.harness.otlp import gauge, message, metrics_data, point, total, varint


def test_gauges_and_sums_of_both_number_types_with_their_attributes() -> None:
    payload = metrics_data(
        gauge("a.b", point(1.5, {"z": "1", "node": "n"}), point(-7)),
        total("a.total", point(3)),
        total("a.sum", point(4), delta=False),
    )
    assert read_points(payload) == [
        Point("a.b", (("node", "n"), ("z", "1")), 1.5, False),
        Point("a.b", (), -7.0, False),
        Point("a.total", (), 3.0, True),
        Point("a.sum", (), 4.0, False),
    ]


def test_attributes_need_not_be_text() -> None:
    def attribute(value: bytes) -> bytes:
        return message(7, message(1, b"k") + message(2, value))

    values = [varint(2 << 3) + b"\x01", varint(3 << 3) + varint((1 << 64) - 5), varint(4 << 3 | 1) + b"\0" * 8, b""]
    payload = metrics_data(gauge("m", *(point(1) + attribute(value) for value in values)))
    assert [one.attributes[0][1] for one in read_points(payload)] == ["true", "-5", "0.0", ""]


def test_other_kinds_and_unknown_fields_are_passed_over() -> None:
    histogram = message(1, b"h") + message(9, message(1, b""))
    payload = metrics_data(histogram, gauge("m", point(1) + varint(99 << 3) + b"\x05")) + message(50, b"new")
    assert [one.name for one in read_points(payload)] == ["m"]
    assert read_points(b"") == []


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0b",
        b"\x08\x01" + b"\xff" * 11,
        varint(1 << 3) + b"\x05",
        varint(3 << 3 | 1) + b"1234",
    ],
)
def test_bytes_that_are_no_metrics(payload: bytes) -> None:
    with pytest.raises(Malformed):
        read_points(payload)


def test_points_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_POINTS", 2)
    assert len(read_points(metrics_data(gauge("m", *[point(1)] * 2)))) == 2
    with pytest.raises(Malformed):
        read_points(metrics_data(gauge("m", *[point(1)] * 3)))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 80))
def test_nothing_but_a_refusal_comes_of_any_bytes(noise: bytes, at: int) -> None:
    good = metrics_data(gauge("a.b", point(1.5, {"k": "v"})))
    for payload in (noise, good[:at] + noise + good[at:]):
        with contextlib.suppress(Malformed):
            read_points(payload)
