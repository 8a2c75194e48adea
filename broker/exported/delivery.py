"""What scheduled delivery exports: how far each partition is released, and how well the scheduler keeps time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.metrics.catalog import delivery as rows
from broker.metrics.instruments import DeliveryStats
from broker.metrics.sources import ITEMS_PER_BREATH, AnySource, Line, Table, single, single_histogram
from broker.partition.delivery_scheduler import DeliveryScheduler
from broker.partition.manager import PartitionManager


def delivery_sources(
    partitions: PartitionManager, deliveries: DeliveryScheduler, stats: DeliveryStats
) -> Iterator[AnySource]:
    """Yield a source for every row about scheduled delivery."""
    yield Table((rows.WATERMARK, rows.PENDING, rows.NEXT), lambda: _lines(partitions))
    yield single_histogram(rows.LATENESS, stats.lateness)
    yield single(rows.WAKEUPS, lambda: stats.wakeups)
    yield single(rows.CLOCK_UNCERTAINTY, lambda: deliveries.uncertainty_ms / 1000)


def _lines(partitions: PartitionManager) -> Iterable[Line | None]:
    for number, partition in enumerate(tuple(partitions)):
        if not number % ITEMS_PER_BREATH:
            yield None
        delivery = partition.delivery
        if delivery is not None:
            (topic, index), due_ms = partition.tp, delivery.due_ms
            due_seconds = None if due_ms is None else due_ms / 1000
            yield (topic, str(index)), (delivery.watermark, delivery.pending_count, due_seconds)
