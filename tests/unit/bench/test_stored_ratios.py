"""Stored ratios: what is written is read again, and when one counts as fallen."""

from __future__ import annotations

import pytest

from tests.bench.ratios import FILE
from tests.bench.stored import Spread, Stored, decode, encode, has_fallen, line, spread_of


def test_what_is_written_is_read_again() -> None:
    stored = Stored(
        {"command": "make bench", "machine": 'a "fast" one'}, {"a": Spread(1.0, 2.5, 3.0), "b": Spread(4, 5, 6)}
    )
    assert decode(encode(stored)) == stored


def test_a_ratio_has_a_line_of_its_own_with_one_decimal() -> None:
    text = encode(Stored({}, {"one": Spread(1.234, 5.678, 9.0), "two": Spread(1, 2, 3)}))
    assert '    "one": {"low": 1.2, "median": 5.7, "high": 9.0},\n' in text


def test_the_rounds_are_summed_up_by_their_median() -> None:
    assert spread_of([3.0, 9.0, 1.0]) == Spread(1.0, 3.0, 9.0)


@pytest.mark.parametrize(
    ("now", "then", "fell"),
    [
        (Spread(69, 70, 71), Spread(79, 80, 81), True),
        (Spread(77, 78, 79), Spread(79, 80, 81), False),  # by as much as the rounds differ
        (Spread(60, 70, 85), Spread(79, 80, 81), False),  # today's rounds differ more
        (Spread(69, 70, 71), Spread(70, 80, 95), False),  # those of then did
        (Spread(99, 100, 101), Spread(79, 80, 81), False),
    ],
)
def test_a_ratio_has_fallen_when_it_lost_more_than_the_rounds_differ(now: Spread, then: Spread, fell: bool) -> None:
    assert has_fallen(now, then) is fell
    assert line("name", now, then).endswith("FELL") is fell


def test_a_ratio_that_was_never_stored_is_new() -> None:
    assert line("name", Spread(1, 2, 3), None).split() == ["name", "1.0", "2.0", "3.0", "new"]


def test_the_file_in_the_repository_says_how_it_was_made() -> None:
    stored = decode(FILE.read_text(encoding="utf-8"))
    assert stored.facts["command"].startswith("make bench")
    assert {"command", "commit", "date", "machine", "code"} <= set(stored.facts)
    assert all(spread.low <= spread.median <= spread.high for spread in stored.ratios.values())
