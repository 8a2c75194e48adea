"""Marks say between which times a record came, never more than was seen, however many there were."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.lag.marks import MAX_MARKS, Marks


def test_a_record_came_after_the_end_was_below_it_and_before_it_was_above() -> None:
    marks = Marks()
    for end, now_ms in ((10, 100), (10, 200), (20, 300), (20, 400)):
        marks.note(end, now_ms)
    assert marks.bounds(9) == (None, 100)
    assert marks.bounds(10) == marks.bounds(19) == (200, 300)
    assert marks.bounds(20) == (400, None)


def test_nothing_is_known_without_marks() -> None:
    assert Marks().bounds(5) == (None, None)


def test_a_log_that_was_cut_and_a_clock_that_was_set_back_begin_anew() -> None:
    for end, now_ms in ((5, 200), (20, 50)):
        marks = Marks()
        marks.note(10, 100)
        marks.note(end, now_ms)
        assert (len(marks), marks.bounds(end)) == (1, (now_ms, None))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), max_size=300), st.integers(0, 900))
def test_many_marks_get_rarer_and_stay_true(steps: list[tuple[int, int]], offset: int) -> None:
    marks, seen, end, now_ms = Marks(), [], 0, 0
    for more, later_ms in steps:
        end, now_ms = end + more, now_ms + later_ms
        marks.note(end, now_ms)
        seen.append((end, now_ms))
    after_ms, before_ms = marks.bounds(offset)
    truly_after = max((ms for end, ms in seen if end <= offset), default=None)
    truly_before = min((ms for end, ms in seen if end > offset), default=None)
    assert len(marks) <= MAX_MARKS
    if truly_after is None:
        assert after_ms is None
    else:
        assert after_ms is None or after_ms <= truly_after
    if truly_before is None:
        assert before_ms is None
    else:
        assert before_ms is not None and before_ms >= truly_before


def test_the_newest_half_is_kept_whole() -> None:
    marks = Marks()
    for number in range(10_000):
        marks.note(number, number * 1000)
    for offset in range(9_970, 9_999):
        assert marks.bounds(offset) == (offset * 1000, offset * 1000 + 1000)
    after_ms, before_ms = marks.bounds(5_000)
    assert after_ms is None or after_ms <= 5_000_000
    assert before_ms is not None and before_ms > 5_000_000
