"""The sources of metrics as prometheus_client would export them: what our own text is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from broker.metrics.catalog.row import Kind, Metric
from broker.metrics.instruments import Histogram
from broker.metrics.sources import AnySource, HistogramSource, SummarySource, Table, is_wanted
from broker.metrics.text import cumulated
from config.views import MetricsConfig


class SourceCollector(Collector):
    """Makes the library's families of sources."""

    def __init__(self, sources: Iterable[AnySource], config: Callable[[], MetricsConfig]) -> None:
        self._sources = tuple(sources)
        self._config = config

    def collect(self) -> Iterator[Family]:
        """Yield the families of one scrape."""
        return (family for metric, family in self._families() if is_wanted(metric, self._config()))

    def describe(self) -> Iterable[Family]:
        """Register without a look."""
        return ()

    def _families(self) -> Iterator[tuple[Metric, Family]]:
        for source in self._sources:
            if isinstance(source, Table):
                lines = [line for line in source.lines() if line is not None]
                for index, metric in enumerate(source.metrics):
                    yield metric, _family(metric, [(labels, values[index]) for labels, values in lines])
            elif isinstance(source, HistogramSource):
                yield source.metric, _histogram_family(source.metric, source.histograms())
            elif isinstance(source, SummarySource):
                yield source.metric, _summary_family(source)
            else:
                samples = [sample for sample in source.samples() if sample is not None]
                yield source.metric, _family(source.metric, samples)


def registry_of(sources: Iterable[AnySource], config: Callable[[], MetricsConfig]) -> CollectorRegistry:
    """Register sources with the library."""
    registry = CollectorRegistry()
    registry.register(SourceCollector(sources, config))
    return registry


def _family(metric: Metric, samples: Iterable[tuple[tuple[str, ...], float | None]]) -> Family:
    kind = GaugeMetricFamily if metric.kind is Kind.GAUGE else CounterMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)
    return family


def _summary_family(source: SummarySource) -> Family:
    metric = source.metric
    family = SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, summary in source.summaries():
        for quantile, value in summary.quantiles:
            names = dict(zip((*metric.labels, "quantile"), (*labels, quantile), strict=True))
            family.add_sample(metric.name, names, value)
        family.add_metric(labels, count_value=summary.observed, sum_value=summary.total)
    return family


def _histogram_family(metric: Metric, histograms: Iterable[tuple[tuple[str, ...], Histogram]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, histogram in histograms:
        buckets = [(bound, float(count)) for bound, count in cumulated(histogram)]
        family.add_metric(labels, buckets=buckets, sum_value=histogram.total)
    return family
