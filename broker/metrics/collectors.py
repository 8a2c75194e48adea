"""Reads the broker's own counters at scrape and turns them into rows of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from broker.metrics.catalog import METRICS, jmx, own
from broker.metrics.catalog.row import Kind, Metric
from broker.metrics.instruments import BrokerStats, Histogram, RequestStats
from broker.metrics.sources import HistogramSource, Sample, Source, is_wanted, single
from config.views import MetricsConfig


class BrokerCollector(Collector):
    """Collects every source, and the requests."""

    def __init__(
        self,
        stats: BrokerStats,
        sources: Iterable[Source | HistogramSource],
        config: Callable[[], MetricsConfig],
    ) -> None:
        self._sources = (*sources, *_request_sources(stats))
        self._config = config

    def collect(self) -> Iterator[Family]:
        """Yield the families of one scrape."""
        config = self._config()
        for source in self._sources:
            if not is_wanted(source.metric, config):
                continue
            if isinstance(source, HistogramSource):
                yield _histogram_family(source.metric, source.histograms())
            else:
                yield _family(source.metric, source.samples())

    def describe(self) -> Iterator[Family]:
        """Register without a scrape: the names are known."""
        for metric in METRICS:
            yield Family(metric.name, metric.help, metric.kind.value)


def _request_sources(stats: BrokerStats) -> Iterator[Source | HistogramSource]:
    def per_api(value: Callable[[RequestStats], int]) -> Iterable[Sample]:
        return (((api,), value(of_api)) for api, of_api in stats.requests.items())

    yield Source(jmx.REQUEST_BYTES, lambda: per_api(lambda one: one.received_bytes))
    yield Source(jmx.REQUEST_FAILURES, lambda: per_api(lambda one: one.failed))
    yield Source(jmx.REQUEST_MALFORMED, lambda: per_api(lambda one: one.malformed))
    yield single(own.REFUSED_FRAMES, lambda: stats.refused_frames)
    yield HistogramSource(
        jmx.REQUEST_SECONDS, lambda: (((api,), of_api.latency) for api, of_api in stats.requests.items())
    )


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = GaugeMetricFamily if metric.kind is Kind.GAUGE else CounterMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram_family(metric: Metric, samples: Iterable[tuple[tuple[str, ...], Histogram]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, histogram in samples:
        family.add_metric(labels, buckets=_buckets(histogram), sum_value=histogram.total)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Give the cumulated counts that Prometheus expects."""
    cumulated = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        cumulated += count
        buckets.append(("+Inf" if bound == float("inf") else repr(bound), cumulated))
    return buckets
