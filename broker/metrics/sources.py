"""Where the numbers of the catalog's rows come from: what a scrape asks, known without whoever writes the answers down.

A scrape walks them on the loop, in slices: between any two samples the loop may do something else, so a walk is over a
copy of what can change meanwhile. In place of a sample stands None where a long walk has found none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.metrics.catalog.row import Metric
from broker.metrics.instruments import Histogram
from config.views import MetricsConfig

ITEMS_PER_BREATH = 64
"""A walk that adds up says None after so many: some ten microseconds."""

Labels = tuple[str, ...]
Sample = tuple[Labels, float]
"""Label values and the number."""
Line = tuple[Labels, tuple[float | None, ...]]
"""Label values and a number for every row of a table; None where there is none."""


class Source(NamedTuple):
    """Where the samples of one row come from, asked at every scrape."""

    metric: Metric
    samples: Callable[[], Iterable[Sample | None]]


class Table(NamedTuple):
    """Where the samples of several rows with the same labels come from: one walk reads them all."""

    metrics: tuple[Metric, ...]
    lines: Callable[[], Iterable[Line | None]]


class HistogramSource(NamedTuple):
    """Where the histograms of one row come from, each with its labels."""

    metric: Metric
    histograms: Callable[[], Iterable[tuple[Labels, Histogram]]]


class Summary(NamedTuple):
    """What a Summary series says: quantiles of lately, count and sum since the start."""

    quantiles: tuple[tuple[str, float], ...]
    observed: int
    total: float


class SummarySource(NamedTuple):
    """Where the summaries of one row come from, each with its labels."""

    metric: Metric
    summaries: Callable[[], Iterable[tuple[Labels, Summary]]]


AnySource = Source | Table | HistogramSource | SummarySource


def single(metric: Metric, value: Callable[[], float]) -> Source:
    """Make a source of one number without labels."""
    return Source(metric, lambda: (((), value()),))


def single_histogram(metric: Metric, histogram: Histogram) -> HistogramSource:
    """Make a source of one histogram without labels."""
    return HistogramSource(metric, lambda: (((), histogram),))


def is_wanted(metric: Metric, config: MetricsConfig) -> bool:
    """Tell whether a row is exported under these settings."""
    return metric.family.value in config.families and (config.per_partition or not metric.is_per_partition)
