"""Tells the kernel which pages the budget of the page cache has no room for, on a thread of its own.

Storage decides (storage.log.page_budget); this only carries it out. The advice may be lost: nothing depends on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from storage.log.page_budget import Drop, PageCacheBudget

logger = logging.getLogger(__name__)

PAGE_CACHE_POOL = "page cache"

DropCached = Callable[[str, int, int], None]


class PageCacheDrops:
    """Carries out what the budget asks for."""

    def __init__(self, budget: PageCacheBudget, pools: Pools, drop_cached: DropCached) -> None:
        self._budget = budget
        self._pools = pools
        self._drop_cached = drop_cached
        self._tasks = TaskOwner("page-cache")

    def trim(self) -> None:
        """Begin to drop what has fallen out of the budget."""
        drops = self._budget.take_drops()
        if drops:
            self._tasks.spawn("drop", self._pools.io(PAGE_CACHE_POOL, partial(self._drop, drops)))

    def _drop(self, drops: Sequence[Drop]) -> None:
        for drop in drops:
            try:
                self._drop_cached(drop.path, drop.position, drop.size)
            except OSError as error:
                logger.debug("pages stay cached path=%s reason=%s", drop.path, error)

    async def close(self) -> None:
        """Wait for what runs."""
        await self._tasks.join()
