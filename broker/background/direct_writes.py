"""Direct writes: what preallocated logs hold in memory goes to the disk beside the loop, one write at a time a log.

A direct write waits for the disk, where one into the page cache does not. It is planned with the loop's next turn, so
appends of one turn share it, and so do those that come while one runs: the more producers a partition has, the larger
its writes. A write that fails takes the directory, as a sync does.
"""

from __future__ import annotations

from broker.background.syncs import Syncs
from broker.metrics.instruments import Histogram
from broker.partition.partition import Partition
from broker.runtime.tasks import TaskOwner


class DirectWrites:
    """Writes for the logs of all partitions."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs
        self._tasks = TaskOwner("direct writes")
        self._writing: set[Partition] = set()
        self.seconds = Histogram()

    def start(self, partition: Partition) -> None:
        """Write until nothing waits any more; the partition is told after each write."""
        if partition not in self._writing:
            self._writing.add(partition)
            self._tasks.spawn(str(partition.tp), self._run(partition))

    async def _run(self, partition: Partition) -> None:
        log = partition.log
        try:
            while (plan := log.direct_writes.plan()) is not None:
                if not await self._syncs.run(partition, log, plan, self.seconds):
                    log.direct_writes.failed(plan)
                    return
                log.direct_writes.written(plan)
                partition.written()
        except Exception as failure:  # a background job's border: nobody may wait for a write that will not come
            partition.leave(failure)
            raise
        finally:
            self._writing.discard(partition)

    async def quiet(self, partition: Partition) -> bool:
        """Wait until nothing runs that was planned of the partition's log; tell whether something did."""
        return await self._tasks.join(str(partition.tp))

    async def close(self) -> None:
        """Wait for what runs."""
        await self._tasks.join()
