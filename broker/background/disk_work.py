"""The disk's work for partitions: direct writes, flushes, write-backs, and what the page cache may keep."""

from __future__ import annotations

from broker.background.direct_writes import DirectWrites
from broker.background.flushes import Flushes
from broker.background.page_cache import DropCached, PageCacheDrops
from broker.background.syncs import Syncs
from broker.background.writeback import Writeback
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from storage.env.clock import Clock
from storage.log.page_budget import PageCacheBudget


class DiskWork:
    """What every partition of a broker is given (broker.partition.work)."""

    def __init__(self, pools: Pools, clock: Clock, page_cache: PageCacheBudget, drop_cached: DropCached) -> None:
        syncs = Syncs(pools, clock.monotonic_ns)
        self.page_cache = page_cache
        self._drops = PageCacheDrops(page_cache, pools, drop_cached)
        self.flushes = Flushes(syncs, clock.now_ms, self._drops.trim)
        self.writeback = Writeback(syncs, clock.monotonic_ns, self._drops.trim)
        self.direct_writes = DirectWrites(syncs)
        self.write = self.direct_writes.start
        self.flush = self.flushes.ask
        self.flush_in_time = self.flushes.ask_in_time
        self.write_back = self.writeback.start

    async def quiet(self, partition: Partition) -> None:
        """Wait until nothing runs that was planned of the partition's log."""
        while any([await work.quiet(partition) for work in (self.direct_writes, self.writeback, self.flushes)]):
            pass

    async def close(self) -> None:
        """Wait for what runs; nothing is cut short, since a sync cannot be."""
        await self.direct_writes.close()
        await self.writeback.close()
        await self.flushes.close()
        await self._drops.close()
