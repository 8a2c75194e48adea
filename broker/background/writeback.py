"""Write-back: syncs the `.log` of a partition whenever a window of it is full, two at most at a time.

A third full window closes the partition's gate: appends wait, in turn, until one of the two has ended. So at most two
windows are on their way to the disk while a third one fills, and no later flush or eviction finds more than that.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.background.syncs import Syncs
from broker.metrics.instruments import Histogram
from broker.partition.partition import Partition
from broker.runtime.tasks import TaskOwner
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.log.writeback import WritebackPlan

MAX_OUTSTANDING = 2
"""One is being written while the next queues behind it in the disk; a third would only hide that the disk is late."""


class Writeback:
    """Runs the write-backs of all partitions."""

    def __init__(self, syncs: Syncs, monotonic_ns: Callable[[], int], on_synced: Callable[[], None]) -> None:
        self._syncs = syncs
        self._monotonic_ns = monotonic_ns
        self._on_synced = on_synced
        self._tasks = TaskOwner("write-back")
        self._outstanding: dict[Partition, int] = {}
        self._closed_since_ns: dict[Partition, int] = {}  # partitions whose third window is full
        self.seconds = Histogram()
        self.waits = 0
        self.wait_seconds = 0.0

    @property
    def running_count(self) -> int:
        """Write-backs that have not ended yet."""
        return sum(self._outstanding.values())

    @property
    def late_count(self) -> int:
        """Partitions whose producers wait, since the disk is late."""
        return len(self._closed_since_ns)

    def start(self, partition: Partition) -> None:
        """Sync a full window, or hold the partition's appends up until that may begin."""
        if partition in self._closed_since_ns:
            return
        if self._outstanding.get(partition, 0) >= MAX_OUTSTANDING:
            self._closed_since_ns[partition] = self._monotonic_ns()
            self.waits += 1
            partition.close_gate()
            return
        log = partition.log
        try:
            plan = log.durability.writeback_plan()
        except StorageFailure as failure:
            partition.fail(failure)
            return
        if plan is not None:
            self._outstanding[partition] = self._outstanding.get(partition, 0) + 1
            self._tasks.spawn(str(partition.tp), self._run(partition, log, plan))

    async def _run(self, partition: Partition, log: PartitionLog, plan: WritebackPlan) -> None:
        try:
            if await self._syncs.run(partition, log, plan, self.seconds):
                log.durability.written_back(plan)
                self._on_synced()
            else:
                plan.release()
        finally:
            self._ended(partition)

    def _ended(self, partition: Partition) -> None:
        left = self._outstanding.pop(partition) - 1
        if left:
            self._outstanding[partition] = left
        since_ns = self._closed_since_ns.pop(partition, None)
        if since_ns is None:
            return
        self.wait_seconds += (self._monotonic_ns() - since_ns) / 1e9
        if not partition.log.is_closed:
            self.start(partition)
        partition.open_gate()

    async def quiet(self, partition: Partition) -> bool:
        """Wait until nothing runs that was planned of the partition's log; tell whether something did."""
        return await self._tasks.join(str(partition.tp))

    async def close(self) -> None:
        """Wait for what runs."""
        await self._tasks.join()
