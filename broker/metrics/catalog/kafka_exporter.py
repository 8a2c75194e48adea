"""The family under the names of kafka_exporter: brokers, partitions and the lag of groups, as a client sees them."""

from __future__ import annotations

from functools import partial

from broker.metrics.catalog.row import Family, Metric

_row = partial(Metric, Family.KAFKA_EXPORTER)
