"""The rate of a cleaning, with a clock that only sleeping moves."""

import math

import pytest

from storage.compaction.throttle import Throttle


class SleepingClock:
    def __init__(self) -> None:
        self.ns = 0

    def now_ms(self) -> int:
        return self.ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.ns += round(seconds * 1e9)


def test_bytes_take_the_time_the_rate_allows():
    clock = SleepingClock()
    throttle = Throttle(1000.0, clock, clock.sleep)
    for _ in range(50):
        throttle.pass_bytes(100)
    assert clock.ns / 1e9 == pytest.approx(5.0, abs=1.0)


def test_time_spent_otherwise_counts():
    clock = SleepingClock()
    throttle = Throttle(1000.0, clock, clock.sleep)
    clock.ns = 2_000_000_000
    throttle.pass_bytes(2000)
    assert clock.ns == 2_000_000_000


def test_without_a_limit_nobody_waits():
    clock = SleepingClock()
    throttle = Throttle(math.inf, clock, clock.sleep)
    throttle.pass_bytes(1 << 40)
    assert clock.ns == 0
