"""The catalog as Markdown: `python -m broker.metrics.docs` prints docs/metrics.md."""

from __future__ import annotations

import sys

from broker.metrics.catalog import METRICS
from broker.metrics.catalog.row import Family, Metric

_INTRODUCTION = """\
# Metrics

Generated from the rows in `broker/metrics/catalog/` by `make docs`; do not edit.

Served at `/metrics` on `odradek.http.listener` (default `127.0.0.1:9404`), in three families of names, each of which
`odradek.metrics.families` can leave out. Rows with a label `partition` have a series for every single partition;
`odradek.metrics.per.partition=false` leaves them out. The `process_*` metrics of the Prometheus client library come
with them.
"""

_SECTIONS = {
    Family.ODRADEK: ("Our own", "What Kafka has no bean for, and true histograms."),
    Family.JMX: ("The JMX exporter's names", "What it makes of Kafka's own beans, as public dashboards ask for it."),
    Family.KAFKA_EXPORTER: ("kafka_exporter's names", "What that exporter learns as a client of the cluster."),
}

_HEAD = "| Name | Kind | Labels | Meaning |\n|---|---|---|---|\n"


def render_metrics() -> str:
    """Render docs/metrics.md."""
    return _INTRODUCTION + "".join(map(_section, Family))


def _section(family: Family) -> str:
    title, meaning = _SECTIONS[family]
    rows = sorted((metric for metric in METRICS if metric.family is family), key=lambda metric: metric.name)
    return f"\n## {title}: `{family.value}`\n\n{meaning}\n\n{_HEAD}{''.join(map(_line, rows))}"


def _line(metric: Metric) -> str:
    return f"| `{metric.exported_name}` | {metric.kind.value} | {', '.join(metric.labels)} | {metric.help} |\n"


if __name__ == "__main__":
    sys.stdout.write(render_metrics())
