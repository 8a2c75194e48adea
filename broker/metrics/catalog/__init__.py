"""Every metric the broker exports, a row each, by family. Sources fill them, docs and tests derive from them.

Labels are bounded: API names, listeners, the topics hosted here, and as many series of clients as are kept.
"""

from __future__ import annotations

from broker.metrics.catalog import delivery, groups, jmx, kafka_exporter, own
from broker.metrics.catalog.row import Metric

METRICS: tuple[Metric, ...] = tuple(
    row
    for module in (own, delivery, groups, jmx, kafka_exporter)
    for row in vars(module).values()
    if isinstance(row, Metric)
)
