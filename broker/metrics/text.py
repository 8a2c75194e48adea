"""The text of the sources, in Prometheus' own format and in OpenMetrics', piece by piece.

Written by hand: prometheus_client makes objects of every sample first, ten times the work, and all of it in one go.
That both say the same is a test. Between any two pieces the loop may do something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache

from broker.metrics.catalog.row import Metric
from broker.metrics.instruments import Histogram
from broker.metrics.sources import AnySource, HistogramSource, Labels, Line, Source, SummarySource, Table, is_wanted
from config.views import MetricsConfig

LINES_PER_PIECE = 64
"""A tenth of a millisecond's work."""


def written(sources: Iterable[AnySource], config: MetricsConfig, *, is_openmetrics: bool) -> Iterator[str]:
    """Give the text of what is wanted of the sources; some pieces are empty. OpenMetrics' last line is left out."""
    for source in sources:
        if isinstance(source, Table):
            yield from _table(source, config, is_openmetrics)
        elif is_wanted(source.metric, config):
            yield _head(source.metric, is_openmetrics)
            if isinstance(source, Source):
                yield from _samples(source)
            elif isinstance(source, SummarySource):
                yield from _summaries(source)
            else:
                yield from _histograms(source)


def number(value: float) -> str:
    """Write a number down as both formats have it."""
    if type(value) is int:
        return str(value)
    value = float(value)
    if value - value == 0:  # sooner told than by math.isfinite
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _head(metric: Metric, is_openmetrics: bool) -> str:
    name = metric.name if is_openmetrics else metric.exported_name
    help_text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    if is_openmetrics:
        help_text = help_text.replace('"', r"\"")
    return f"# HELP {name} {help_text}\n# TYPE {name} {metric.kind.value}\n"


@cache
def _template(names: tuple[str, ...]) -> str:
    return "{" + ",".join(f'{name}="%s"' for name in names) + "}" if names else ""


def _labelled(template: str, values: Labels, escaped: _Escaped) -> str:
    """Write label values down; a series of all that others have labels for has none."""
    return template % tuple(map(escaped.__getitem__, values)) if values else ""


class _Escaped(dict[str, str]):
    """Label values as they are written down; most of them come again and again."""

    def __missing__(self, value: str) -> str:
        escaped = self[value] = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        return escaped


def _samples(source: Source) -> Iterator[str]:
    name, template, escaped = source.metric.exported_name, _template(source.metric.labels), _Escaped()
    lines: list[str] = []
    for sample in source.samples():
        if sample is not None:
            labels, value = sample
            lines.append(f"{name}{_labelled(template, labels, escaped)} {number(value)}\n")
        if sample is None or len(lines) == LINES_PER_PIECE:
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


def _table(table: Table, config: MetricsConfig, is_openmetrics: bool) -> Iterator[str]:
    """Write each row of the catalog in one block, as the formats ask for, from one walk over the lines."""
    wanted = [index for index, metric in enumerate(table.metrics) if is_wanted(metric, config)]
    if not wanted:
        return
    template, escaped = _template(table.metrics[0].labels), _Escaped()
    columns: list[tuple[int, str, list[str]]] = [(index, table.metrics[index].exported_name, []) for index in wanted]

    def write(found: list[Line]) -> None:
        texts = [_labelled(template, labels, escaped) for labels, _ in found]
        for index, name, column in columns:
            column += [
                f"{name}{text} {value if type(value) is int else number(value)}\n"
                for text, (_, values) in zip(texts, found, strict=True)
                if (value := values[index]) is not None
            ]

    found: list[Line] = []
    for line in table.lines():
        if line is not None:
            found.append(line)
        if line is None or len(found) * len(columns) >= LINES_PER_PIECE:
            write(found)
            found.clear()
            yield ""
    write(found)
    for index, _, column in columns:
        yield _head(table.metrics[index], is_openmetrics)
        for start in range(0, len(column), 10 * LINES_PER_PIECE):
            yield "".join(column[start : start + 10 * LINES_PER_PIECE])


def _histograms(source: HistogramSource) -> Iterator[str]:
    metric = source.metric
    buckets, plain, escaped = _template((*metric.labels, "le")), _template(metric.labels), _Escaped()
    for labels, histogram in source.histograms():
        text = _labelled(plain, labels, escaped)
        yield "".join(
            [
                *(
                    f"{metric.name}_bucket{_labelled(buckets, (*labels, bound), escaped)} {count}\n"
                    for bound, count in cumulated(histogram)
                ),
                f"{metric.name}_count{text} {histogram.count}\n",
                f"{metric.name}_sum{text} {number(histogram.total)}\n",
            ]
        )


def _summaries(source: SummarySource) -> Iterator[str]:
    metric = source.metric
    quantiles, plain, escaped = _template((*metric.labels, "quantile")), _template(metric.labels), _Escaped()
    for labels, summary in source.summaries():
        text = _labelled(plain, labels, escaped)
        yield "".join(
            [
                *(
                    f"{metric.name}{_labelled(quantiles, (*labels, quantile), escaped)} {number(value)}\n"
                    for quantile, value in summary.quantiles
                ),
                f"{metric.name}_count{text} {summary.observed}\n",
                f"{metric.name}_sum{text} {number(summary.total)}\n",
            ]
        )


def cumulated(histogram: Histogram) -> Iterator[tuple[str, int]]:
    """Give the upper bound of each bucket, as text, and how many observations lie below it."""
    count = 0
    for bound, observed in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
        count += observed
        yield number(float(bound)), count
