"""Where the numbers of the catalog's rows come from: what a scrape asks, known without whoever renders the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.metrics.catalog.row import Metric
from broker.metrics.instruments import Histogram
from config.views import MetricsConfig

Sample = tuple[tuple[str, ...], float]
"""Label values and the number."""


class Source(NamedTuple):
    """Where the samples of one row come from, asked at every scrape."""

    metric: Metric
    samples: Callable[[], Iterable[Sample]]


class HistogramSource(NamedTuple):
    """Where the histograms of one row come from, each with its labels."""

    metric: Metric
    histograms: Callable[[], Iterable[tuple[tuple[str, ...], Histogram]]]


def single(metric: Metric, value: Callable[[], float]) -> Source:
    """Make a source of one number without labels."""
    return Source(metric, lambda: (((), value()),))


def single_histogram(metric: Metric, histogram: Histogram) -> HistogramSource:
    """Make a source of one histogram without labels."""
    return HistogramSource(metric, lambda: (((), histogram),))


def is_wanted(metric: Metric, config: MetricsConfig) -> bool:
    """Tell whether a row is exported under these settings."""
    return metric.family.value in config.families and (config.per_partition or not metric.is_per_partition)
