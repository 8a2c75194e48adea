"""Rates over sampled windows and buckets of tokens, on times that the test gives."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.quota.rates import INT_MAX, SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1_000)


class Window:
    """One window of the plain model."""

    def __init__(self, now_ms: int) -> None:
        self.empty(now_ms)

    def empty(self, now_ms: int) -> None:
        self.start = self.last = now_ms
        self.amount = 0.0


class PlainRate:
    """The rule as it is told: windows in a ring, each asked anew whether it still counts."""

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self.windows = windows
        self.ring = [Window(now_ms)]
        self.at = 0

    def record(self, amount: float, now_ms: int) -> None:
        if now_ms - self.ring[self.at].start >= self.windows.size_ms:
            self.at = (self.at + 1) % (self.windows.number + 1)
            if self.at == len(self.ring):
                self.ring.append(Window(now_ms))
            self.ring[self.at].empty(now_ms)
        self.ring[self.at].amount += amount
        self.ring[self.at].last = now_ms

    def look(self, now_ms: int) -> tuple[float, int]:
        """Return the sum of what counts, and the time that it is spread over."""
        for window in self.ring:
            if now_ms - window.last >= self.windows.number * self.windows.size_ms:
                window.empty(now_ms)
        elapsed = now_ms - min(window.start for window in self.ring)
        full = elapsed // self.windows.size_ms
        if full < self.windows.number - 1:
            elapsed += (self.windows.number - 1 - full) * self.windows.size_ms
        return sum(window.amount for window in self.ring), max(elapsed, 1)


class Event(NamedTuple):
    """Some time passes, then something is recorded, or only looked at."""

    pause_ms: int
    amount: int | None


EVENTS = st.lists(
    st.builds(
        Event,
        st.one_of(st.integers(0, 30), st.integers(0, 1_500), st.integers(0, 14_000)),
        st.one_of(st.none(), st.integers(-5, 2_000)),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(events=EVENTS, windows=st.builds(Windows, st.integers(1, 12), st.sampled_from([1_000, 2_000])))
def test_a_rate_is_what_the_plain_model_says(events: list[Event], windows: Windows) -> None:
    now_ms = 1_000_000
    rate, plain = SampledRate(windows, now_ms), PlainRate(windows, now_ms)
    for event in events:
        now_ms += event.pause_ms
        if event.amount is not None:
            rate.record(event.amount, now_ms)
            plain.record(event.amount, now_ms)
            if event.amount < 0:
                continue  # taken back unseen
        amount, span_ms = plain.look(now_ms)
        assert rate.measured_ms(now_ms) == span_ms
        assert rate.per_second(now_ms) == pytest.approx(amount * 1000 / span_ms)


@pytest.mark.parametrize("size", [10, 100, 1_000, 5_000])
def test_whoever_waits_as_long_as_asked_gets_its_quota_and_no_more(size: int) -> None:
    quota, now_ms, done = 1_000.0, 0, 0
    chance = random.Random(size)
    rate = SampledRate(WINDOWS, now_ms)
    while now_ms < 300_000:
        amount = chance.randint(1, size)
        rate.record(amount, now_ms)
        done += amount
        now_ms += chance.randint(0, 3) + rate.throttle_ms(quota, now_ms)
    assert done == pytest.approx(quota * now_ms / 1000, rel=0.1)


def test_a_first_burst_is_spread_over_all_windows_but_the_one_that_runs() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(10_000, 0)
    assert rate.measured_ms(0) == 10_000
    assert rate.per_second(0) == 1_000
    assert rate.throttle_ms(1_000, 0) == 0
    assert rate.throttle_ms(500, 0) == 10_000
    assert rate.measured_ms(400) == 10_400


def test_a_throttle_time_is_what_brings_a_full_rate_down_to_the_quota() -> None:
    rate = SampledRate(WINDOWS, 0)
    for second in range(11):
        rate.record(1_500, second * 1_000)
    throttle_ms = rate.throttle_ms(1_000, 10_000)
    assert throttle_ms == 6_500
    assert rate.total * 1000 / (10_000 + throttle_ms) == pytest.approx(1_000)


def test_what_was_done_counts_until_its_window_was_silent_for_all_windows() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(500, 0)
    rate.record(500, 900)
    assert rate.total == 1_000 and rate.per_second(11_899) > 0
    assert rate.per_second(11_900) == 0


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(700, 0)
    rate.record(9_000, 300)
    rate.record(-9_000, 300)
    assert rate.per_second(300) == pytest.approx(700 * 1000 / 10_300)


def test_throttle_times_are_rounded_and_fit_into_a_response() -> None:
    rate = SampledRate(WINDOWS, 0)
    rate.record(10_000.6, 0)
    assert rate.throttle_ms(1_000, 0) == 1
    rate.record(1e9, 0)
    assert rate.throttle_ms(1, 0) == INT_MAX


def test_a_quota_of_nothing_is_waited_for_as_long_as_can_be_said() -> None:
    rate = SampledRate(Windows(), 0)
    assert rate.throttle_ms(0, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(0, 0) == INT_MAX


def test_a_bucket_is_full_at_first_and_grows_no_further() -> None:
    bucket = TokenBucket(WINDOWS, 2.0, 5_000)
    assert bucket.tokens(2.0, 5_000) == 22
    assert bucket.tokens(2.0, 500_000) == 22


def test_a_bucket_may_be_overdrawn_once_and_asks_for_the_time_to_fill_up_again() -> None:
    bucket = TokenBucket(WINDOWS, 2.0, 0)
    bucket.record(30, 2.0, 0)
    assert bucket.tokens(2.0, 0) == -8
    assert bucket.throttle_ms(2.0, 0) == 4_000
    assert bucket.throttle_ms(2.0, 1_500) == 2_500
    assert bucket.throttle_ms(2.0, 4_000) == 0


def test_a_bucket_keeps_its_credit_when_the_quota_changes_but_never_more_than_fits() -> None:
    bucket = TokenBucket(WINDOWS, 10.0, 0)
    assert bucket.tokens(1.0, 0) == 11
    bucket.record(6, 1.0, 0)
    assert bucket.tokens(10.0, 1_000) == 15
