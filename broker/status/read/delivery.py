"""What scheduled topics hold back, and until when."""

from __future__ import annotations

from broker.metrics.instruments import DeliveryStats
from broker.partition.partition import Partition
from broker.status.model import Schedule


def held_back(partition: Partition) -> tuple[int, int | None] | None:
    """Return how many offsets a partition holds back and until when, as far as is known; None unless scheduled."""
    delivery = partition.delivery
    return None if delivery is None else (delivery.pending_count, delivery.due_ms)


class Schedules:
    """Adds up what the partitions of a broker hold back."""

    def __init__(self) -> None:
        self._partitions = self._holding = self._pending = 0
        self._next_ms: int | None = None

    def add(self, partition: Partition) -> int | None:
        """Add a partition; return how many offsets it holds back."""
        held = held_back(partition)
        if held is None:
            return None
        pending, due_ms = held
        self._partitions += 1
        self._holding += pending > 0
        self._pending += pending
        if due_ms is not None and (self._next_ms is None or due_ms < self._next_ms):
            self._next_ms = due_ms
        return pending

    def total(self, stats: DeliveryStats) -> Schedule | None:
        """Return the sum, None where nothing is scheduled."""
        if not self._partitions:
            return None
        observed = stats.lateness.count
        lateness = stats.lateness.total / observed if observed else None
        return Schedule(self._partitions, self._holding, self._pending, self._next_ms, observed, lateness)
