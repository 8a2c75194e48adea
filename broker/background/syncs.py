"""Syncs beside the loop: run a plan of a log's in the I/O pool of its directory, and judge how it ended.

A plan that fails takes the directory, with one exception: a log that was deleted or moved meanwhile has left its name,
and what cannot be found under it proves nothing. A failed sync is never repeated: the kernel may have dropped the dirty
pages.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.metrics.instruments import Histogram
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog


class Plan(Protocol):
    """A flush or a write-back, planned."""

    def run(self) -> None:
        """Sync; any thread."""


class Syncs:
    """Runs plans and measures them."""

    def __init__(self, pools: Pools, monotonic_ns: Callable[[], int]) -> None:
        self._pools = pools
        self._monotonic_ns = monotonic_ns

    async def run(self, partition: Partition, log: PartitionLog, plan: Plan, latency: Histogram) -> bool:
        """Run a plan of the partition's log; tell whether it went well. Otherwise its directory has been given up.

        The log is the one that the plan was made of: another one may take its place meanwhile.
        """
        path = log.path
        try:
            seconds = await self._pools.io(os.path.dirname(path), partial(self._timed, plan))
        except StorageFailure as failure:
            has_left = log.is_closed or log.path != path
            if not (has_left and isinstance(failure.__cause__, FileNotFoundError)):
                partition.fail(failure)
            return False
        latency.observe(seconds)
        return True

    def _timed(self, plan: Plan) -> float:
        started_ns = self._monotonic_ns()
        plan.run()
        return (self._monotonic_ns() - started_ns) / 1e9
