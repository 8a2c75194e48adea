"""What partitions leave to others: the disk's work, and looking again when scheduled records come due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.partition.partition import Partition


class DiskWork(Protocol):
    """What partitions leave to the background (broker.background.disk_work): it calls back when it is done."""

    def flush(self, partition: Partition, below: int) -> None:
        """Make everything below an offset durable, then call `flushed`."""

    def flush_in_time(self, partition: Partition) -> None:
        """Flush when flush.ms says so, unless that is arranged already."""

    def write(self, partition: Partition) -> None:
        """Write what a preallocated log holds in memory, then call `written`, again and again until it has all."""

    def write_back(self, partition: Partition) -> None:
        """Sync a full window, or call `close_gate` and later `open_gate` when too much is on its way already."""


class Deliveries(Protocol):
    """What partitions of scheduled topics leave to the scheduler (broker.partition.delivery_scheduler)."""

    def follow(self, partition: Partition) -> None:
        """Have `release_due` called when the next batch comes due, as long as the partition is scheduled and led."""

    async def catch_up(self, partition: Partition, deadline: float | None = None) -> None:
        """Wait until the watermark of a long log says all that is due. Raises: SearchTakesTooLong."""
