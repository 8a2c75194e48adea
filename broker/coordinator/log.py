"""What coordinators need of the internal topic they keep their state in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from broker.partition.partition import Marker
from storage.producers.verification import Verification


class CoordinatorLog(Protocol):
    """The internal topic's partitions."""

    async def append(self, partition: int, batch: bytearray, verification: Verification | None = None) -> int:
        """Append one batch; return the next offset once the high watermark has passed it."""

    async def append_marker(self, partition: int, marker: Marker) -> int:
        """Append a marker likewise."""

    def scan(self, partition: int) -> AsyncIterator[memoryview]:
        """Iterate over the stored batches, one at a time, from the log start."""

    def leader_epoch(self, partition: int) -> int:
        """Give the epoch of our leadership."""
