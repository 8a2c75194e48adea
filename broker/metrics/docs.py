"""The catalog as Markdown: `python -m broker.metrics.docs` prints docs/metrics.md."""

from __future__ import annotations

import sys

from broker.metrics.catalog import METRICS, Kind, Metric

_INTRODUCTION = """\
# Metrics

Generated from `broker/metrics/catalog.py` by `make docs`; do not edit.

Served at `/metrics` on `odradek.http.listener` (default `127.0.0.1:9404`). Names follow what the JMX exporter makes of
Kafka's own beans where there is one; our own begin with `odradek_`. The `process_*` metrics of the Prometheus client
library come with them.

| Name | Kind | Labels | Meaning |
|---|---|---|---|
"""


def exported_name(metric: Metric) -> str:
    """Give the name under which samples appear: Prometheus wants `_total` behind a counter."""
    return f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name


def render_metrics() -> str:
    """Render docs/metrics.md."""
    return _INTRODUCTION + "".join(
        f"| `{exported_name(metric)}` | {metric.kind.value} | {', '.join(metric.labels)} | {metric.help} |\n"
        for metric in sorted(METRICS, key=lambda metric: metric.name)
    )


if __name__ == "__main__":
    sys.stdout.write(render_metrics())
