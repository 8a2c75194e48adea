"""The pace of a cleaner process, by a clock that only its own sleeping moves."""

from __future__ import annotations

import pytest

from broker.background.cleaner.process import LONGEST_SLEEP_S, Pace


class Bed:
    def __init__(self) -> None:
        self.now_ns = 0
        self.pace = Pace(lambda: self.now_ns, self.sleep)
        self.slept: list[float] = []
        self.on_sleep = lambda: None

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ns += round(seconds * 1e9)
        self.on_sleep()


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_without_a_limit_nothing_waits(bed: Bed) -> None:
    for spent in range(0, 1 << 40, 1 << 34):
        bed.pace.reach(spent)
    bed.pace.set_rate(1.7976931348623157e308)
    bed.pace.reach(1 << 50)
    assert bed.slept == []


def test_bytes_take_the_time_that_the_rate_gives_them(bed: Bed) -> None:
    bed.pace.set_rate(1_000)
    for spent in range(100, 10_001, 100):
        bed.pace.reach(spent)
    assert bed.now_ns == pytest.approx(10e9)
    assert max(bed.slept) <= LONGEST_SLEEP_S


def test_time_spent_otherwise_counts_but_is_not_saved_up(bed: Bed) -> None:
    bed.pace.set_rate(1_000)
    bed.now_ns += 60_000_000_000
    bed.pace.begin()
    bed.pace.reach(1_000)
    bed.now_ns += 400_000_000
    bed.pace.reach(2_000)
    assert bed.now_ns == pytest.approx(62e9)
    bed.now_ns += 5_000_000_000
    bed.pace.reach(3_000)
    bed.pace.reach(4_000)
    assert bed.now_ns == pytest.approx(68e9)


def test_a_new_rate_ends_the_wait_of_the_old_one(bed: Bed) -> None:
    bed.pace.set_rate(1)
    bed.on_sleep = lambda: bed.pace.set_rate(1_000_000)
    bed.pace.reach(1_000_000)
    assert bed.now_ns == pytest.approx(LONGEST_SLEEP_S * 1e9)
    bed.pace.reach(2_000_000)
    assert bed.now_ns == pytest.approx(1.5e9, rel=0.01)


def test_each_task_counts_from_nothing(bed: Bed) -> None:
    bed.pace.set_rate(1_000)
    bed.pace.reach(500)
    bed.pace.begin()
    bed.pace.reach(500)
    assert bed.now_ns == pytest.approx(1e9)


def test_a_rate_of_nothing_is_one_byte_a_second(bed: Bed) -> None:
    bed.pace.set_rate(0)
    bed.pace.reach(3)
    assert bed.now_ns == pytest.approx(3e9)
