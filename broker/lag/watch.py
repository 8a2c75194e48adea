"""Brings the lag of all groups up to date when a scrape comes; scrapes that come together share one look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.coordinator.group.shard import GroupShard
from broker.lag.look import Look, Pause
from broker.lag.record_times import RecordTimes
from broker.lag.snapshot import LagSnapshot
from broker.metadata.image import ClusterImage
from broker.partition.manager import PartitionManager
from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from storage.env.clock import Clock

SLICE_NS = 1_000_000
"""So long a look keeps the loop at a time."""
SETTLE_SECONDS = 0.05
"""So long a scrape waits for lookups; what they have not found by then it tells the next time."""


class LagWatch:
    """Knows how far groups are behind, as of the last look."""

    def __init__(self, partitions: PartitionManager, pools: Pools, clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock
        self._times = RecordTimes(pools, clock.monotonic_ns, partitions.fail_dir_of)
        self._tasks = TaskOwner("lag")
        self._looking: asyncio.Task[None] | None = None
        self.latest = LagSnapshot()

    async def look(
        self, image: ClusterImage, shards: Callable[[], list[GroupShard]], *, with_first_records: bool
    ) -> None:
        """Look at all groups, or wait for a look that is being taken."""
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.spawn("look", self._look(image, shards(), with_first_records))
        await asyncio.wait((self._looking,))

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.close()
        await self._times.close()

    async def _look(self, image: ClusterImage, shards: list[GroupShard], with_first_records: bool) -> None:
        pause = self._pauses()
        look = Look(image, self._partitions, self._times, self._clock.now_ms, pause)
        self._times.begin()
        await look.take(shards)
        if with_first_records:
            await look.take_first_records(list(self._partitions))
        self._times.end()
        await self._times.settle(SETTLE_SECONDS)
        await look.tell_times()
        self.latest = look.found

    def _pauses(self) -> Pause:
        since_ns = self._clock.monotonic_ns()

        async def pause() -> None:
            nonlocal since_ns
            if self._clock.monotonic_ns() - since_ns > SLICE_NS:
                await asyncio.sleep(0)
                since_ns = self._clock.monotonic_ns()

        return pause
