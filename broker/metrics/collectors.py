"""Reads the broker's own counters at scrape and turns them into rows of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from broker.metrics import catalog
from broker.metrics.catalog import Kind, Metric
from broker.metrics.instruments import BrokerStats, Histogram
from broker.metrics.sources import HistogramSource, Sample, Source


class BrokerCollector(Collector):
    """Collects every source, and the requests."""

    def __init__(self, stats: BrokerStats, sources: Iterable[Source | HistogramSource]) -> None:
        self._stats = stats
        self._sources = tuple(sources)

    def collect(self) -> Iterator[Family]:
        """Yield the families of one scrape."""
        for source in self._sources:
            if isinstance(source, HistogramSource):
                yield _histogram_family(source.metric, source.histograms())
            else:
                yield _family(source.metric, source.samples())
        requests = self._stats.requests
        yield _family(catalog.REQUEST_BYTES, ((((api,), s.received_bytes) for api, s in requests.items())))
        yield _family(catalog.REQUEST_FAILURES, ((((api,), s.failed) for api, s in requests.items())))
        yield _family(catalog.REQUEST_MALFORMED, ((((api,), s.malformed) for api, s in requests.items())))
        yield _family(catalog.REFUSED_FRAMES, (((), self._stats.refused_frames),))
        yield _histogram_family(catalog.REQUEST_SECONDS, (((api,), s.latency) for api, s in requests.items()))

    def describe(self) -> Iterator[Family]:
        """Register without a scrape: the names are known."""
        for metric in catalog.METRICS:
            yield Family(metric.name, metric.help, metric.kind.value)


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
