"""A row of the metrics catalog: name, kind, labels and the family that it can be switched off with."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Family(Enum):
    """Whose names these are; the values are those of odradek.metrics.families."""

    ODRADEK = "odradek"
    JMX = "jmx"
    KAFKA_EXPORTER = "kafka_exporter"


class Kind(Enum):
    """What kind of number a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Metric(NamedTuple):
    """One row."""

    family: Family
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def is_per_partition(self) -> bool:
        """Tell whether every partition has a series of its own, so that odradek.metrics.per.partition switches it."""
        return "partition" in self.labels

    @property
    def exported_name(self) -> str:
        """Give the name under which samples appear: Prometheus wants `_total` behind a counter."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name
