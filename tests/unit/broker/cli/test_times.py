"""Dates and durations in options."""

from __future__ import annotations

import pytest

from broker.cli.errors import CommandError
from broker.cli.times import duration_ms, timestamp_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:16:42.123Z", 1_002_123),
        ("1970-01-01T01:16:42.123+01:00", 1_002_123),
        ("1970-01-01T00:16:42", 1_002_000),
        ("1969-12-31T23:59:59.999", -1),
        ("2030-03-17T17:46:40.000", 1_900_000_000_000),
    ],
)
def test_a_date_is_in_utc_unless_it_has_a_zone(text: str, expected: int):
    assert timestamp_ms(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2020-01-01", "2020-13-01T00:00:00", "2020-01-01T25:00:00.000"])
def test_what_is_no_date_is_refused(text: str):
    with pytest.raises(CommandError, match="YYYY-MM-DDTHH"):
        timestamp_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", 604_800_000),
        ("PT1H", 3_600_000),
        ("PT1H30M", 5_400_000),
        ("P1DT1M1.5S", 86_461_500),
        ("pt0.001s", 1),
        ("-PT1M", -60_000),
        ("PT-1M", -60_000),
        ("PT0S", 0),
    ],
)
def test_a_duration_is_as_iso_8601_has_it(text: str, expected: int):
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "7D", "P1Y", "P1W", "PT1.5M", "PT1H junk", "1000"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(CommandError, match="PnDTnHnMnS"):
        duration_ms(text)
