"""Quantiles of lately: what they are estimated from, and what is forgotten."""

from __future__ import annotations

import math

import pytest

from broker.exported.recent import STEP_NS, WINDOW_NS, Recent, quantile
from broker.metrics.instruments import Histogram


def test_within_a_bucket_times_lie_evenly() -> None:
    bounds = (1.0, 2.0, 4.0)
    assert quantile(0.5, bounds, (0, 0, 10, 0)) == 3.0
    assert quantile(0.5, bounds, (10, 10, 0, 0)) == 1.0
    assert quantile(0.75, bounds, (10, 10, 0, 0)) == 1.5


def test_beyond_the_last_bound_nothing_is_known_but_the_bound() -> None:
    assert quantile(0.99, (1.0, 2.0), (0, 0, 5)) == 2.0


def test_where_nothing_was_observed_there_is_no_number() -> None:
    assert math.isnan(quantile(0.5, (1.0,), (0, 0)))


def test_those_that_took_no_time_are_below_all_others() -> None:
    assert quantile(0.5, (1.0,), (5, 0), zeros=5) == 0.0
    assert quantile(0.75, (1.0,), (5, 0), zeros=5) == 0.5


def observed(histogram: Histogram, seconds: float, count: int) -> None:
    for _ in range(count):
        histogram.observe(seconds)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    recent, histogram = Recent(), Histogram((1.0, 2.0))
    observed(histogram, 0.5, 100)
    first = recent.summary(0, histogram)
    assert dict(first.quantiles)["0.50"] == 500
    observed(histogram, 1.5, 10)
    for now_ns in range(STEP_NS, WINDOW_NS + 2 * STEP_NS, STEP_NS // 2):
        assert dict(recent.summary(now_ns, histogram).quantiles)["0.50"] >= 1000, "of what came since the first look"
        observed(histogram, 1.5, 1)
    later = recent.summary(10 * WINDOW_NS, histogram)
    assert later.observed == histogram.count and later.total == pytest.approx(1000 * histogram.total)
    assert math.isnan(dict(recent.summary(11 * WINDOW_NS, histogram).quantiles)["0.50"]), "nothing came since"


def test_of_those_who_did_not_wait_the_times_are_none() -> None:
    recent, waited, everybody = Recent(), Histogram((1.0,)), Histogram((1.0,))
    observed(everybody, 0.1, 98)
    observed(waited, 0.5, 2)
    observed(everybody, 0.5, 2)
    quantiles = dict(recent.summary(0, waited, everybody).quantiles)
    assert quantiles["0.95"] == 0 and quantiles["0.99"] == 500


def test_few_looks_are_remembered() -> None:
    recent, histogram = Recent(), Histogram()
    for now_ns in range(0, 20 * WINDOW_NS, STEP_NS // 10):
        recent.summary(now_ns, histogram)
    assert len(recent._looks) <= WINDOW_NS // STEP_NS + 2
