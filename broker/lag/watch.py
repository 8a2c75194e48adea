"""Brings the lag of all groups up to date when a scrape comes; scrapes that come together share one look.

What a look needs is loaded with the first one, in a thread: a broker that nobody scrapes goes without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinator.group.shard import GroupShard
from broker.lag.snapshot import LagSnapshot
from broker.metadata.image import ClusterImage
from broker.partition.manager import PartitionManager
from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from broker.runtime.turns import Turns
from storage.env.clock import Clock

if TYPE_CHECKING:
    from broker.lag.look import Look
    from broker.lag.record_times import RecordTimes

LOADING_POOL = "lag"
SETTLE_SECONDS = 0.05
"""So long a scrape waits for lookups; what they have not found by then it tells the next time."""


class LagWatch:
    """Knows how far groups are behind, as of the last look."""

    def __init__(self, partitions: PartitionManager, pools: Pools, clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock
        self._pools = pools
        self._kind_of_look: type[Look]  # set with the first look, as is what follows
        self._times: RecordTimes | None = None
        self._tasks = TaskOwner("lag")
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False
        self.latest = LagSnapshot()

    async def look(
        self, image: ClusterImage, shards: Callable[[], list[GroupShard]], *, with_first_records: bool
    ) -> None:
        """Look at all groups, or wait for a look that is being taken; nothing more is seen after `close`."""
        if self._is_closed:
            return
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.spawn("look", self._look(image, shards(), with_first_records))
        await asyncio.wait((self._looking,))

    async def close(self) -> None:
        """Look no more, and into no log."""
        self._is_closed = True
        await self._tasks.close()
        if self._times is not None:
            await self._times.close()

    async def _look(self, image: ClusterImage, shards: list[GroupShard], with_first_records: bool) -> None:
        if self._times is None:
            self._kind_of_look, record_times = await self._pools.io(LOADING_POOL, _load)
            self._times = record_times(self._pools, self._clock.monotonic_ns, self._partitions.fail_dir_of)
        times = self._times
        pause = Turns(self._clock.monotonic_ns).rest
        look = self._kind_of_look(image, self._partitions, times, self._clock.now_ms, pause)
        times.begin()
        await look.take(shards)
        if with_first_records:
            await look.take_first_records(list(self._partitions))
        await times.end(pause)
        await times.settle(SETTLE_SECONDS)
        await look.tell_times()
        self.latest = look.found


def _load() -> tuple[type[Look], type[RecordTimes]]:
    from broker.lag.look import Look
    from broker.lag.record_times import RecordTimes

    return Look, RecordTimes
