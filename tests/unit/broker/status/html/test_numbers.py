"""Numbers as people read them."""

from __future__ import annotations

import pytest

from broker.status.html.numbers import count, counted, duration, machine_moment, moment, percent, rate, size, wait


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (999_999, "977 KiB"),
        (1024**2 * 1000, "0.98 GiB"),
        (1024**3 * 59.13, "59.1 GiB"),
        (2.0**80, "1,048,576 EiB"),
    ],
)
def test_sizes_have_three_digits(value: float | None, text: str) -> None:
    assert size(value) == text.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "", "\u2013"),
        (0, "", "0/s"),
        (0.2, "", "0.20/s"),
        (9.999, "", "10.0/s"),
        (12.34, "", "12.3/s"),
        (7160.4, "", "7,160/s"),
        (0.0, "B", "0\u00a0B/s"),
        (3_512_000, "B", "3.35\u00a0MiB/s"),
    ],
)
def test_rates_are_by_the_second(value: float | None, unit: str, text: str) -> None:
    assert rate(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "\u2013"),
        (0.9, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (3_725, "1 h 2 min"),
        (86_400 * 12 + 3_600 * 5, "12 d 5 h"),
    ],
)
def test_times_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert duration(seconds).replace("\u00a0", " ") == text


def test_counts_moments_and_shares() -> None:
    assert (count(1_234_567), count(None)) == ("1,234,567", "\u2013")
    assert [counted(number, "topic") for number in (0, 1, 1_000)] == ["0 topics", "1 topic", "1,000 topics"]
    assert [counted(number, "batch", "es") for number in (1, 2)] == ["1 batch", "2 batches"]
    assert moment(1_700_000_000_999) == "2023-11-14 22:13:20"
    assert machine_moment(1_700_000_000_999) == "2023-11-14T22:13:20Z"
    assert [percent(share) for share in (0.0, 0.999, 1.0)] == ["0\u00a0%", "99\u00a0%", "100\u00a0%"]


@pytest.mark.parametrize(
    ("until_ms", "text"),
    [(None, "\u2013"), (999, "0 s"), (61_000, "1 min 0 s"), (2**63 - 1, "ages")],
)
def test_a_wait_is_over_when_its_time_has_come_and_may_be_longer_than_any_calendar(
    until_ms: int | None, text: str
) -> None:
    assert wait(until_ms, 1000).replace("\u00a0", " ") == text
