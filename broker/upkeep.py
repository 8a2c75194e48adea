"""Upkeep: what is done to logs in the background, at times or on demand; made, started and stopped together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.background.checkpoints import Checkpoints
from broker.background.cleaner.child import CleanerChild
from broker.background.cleaner.run import Cleaner
from broker.background.disk_work import DiskWork
from broker.background.moves.run import Moves
from broker.background.moves.swap import Assign
from broker.background.retention import Retention
from broker.metadata.image import ClusterImage
from broker.metadata.live_config import LiveConfig
from broker.partition.manager import PartitionManager
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from config.build import cleaner_config, log_manager_config, move_config
from config.resolve import Resolver
from storage.dirs.manager import LogManager
from storage.env.clock import Clock, Rng

CLEANER_POOL = "cleaner"
"""The pool that waits for cleaner processes to end."""


class Upkeep:
    """Checkpoints, retention, compaction, and moves between directories."""

    def __init__(
        self,
        resolver: Resolver,
        live: LiveConfig,
        logs: LogManager,
        partitions: PartitionManager,
        disk_work: DiskWork,
        pools: Pools,
        clock: Clock,
        rng: Rng,
        image: Callable[[], ClusterImage],
        assign: Assign,
    ) -> None:
        log_config = log_manager_config(resolver)
        self._cleans = cleaner_config(resolver).enable
        self.checkpoints = Checkpoints(logs, partitions, disk_work.flushes, pools, clock, log_config)
        self.retention = Retention(
            partitions, pools, clock, log_config, self.checkpoints, is_busy=lambda tp: self.cleaner.is_busy(tp)
        )
        self.cleaner = Cleaner(
            logs,
            partitions,
            pools,
            clock,
            rng,
            lambda: cleaner_config(live.resolver(image())),
            partial(CleanerChild.start, partial(pools.io, CLEANER_POOL)),
            self.retention.apply,
        )
        self.moves = Moves(
            logs,
            partitions,
            self.cleaner,
            disk_work,
            self.checkpoints,
            pools,
            clock.monotonic_ns,
            move_config(resolver),
            assign,
        )

    async def start(self, scheduler: Scheduler) -> None:
        """Begin."""
        self.checkpoints.start(scheduler)
        self.retention.start(scheduler)
        await self.moves.start()
        if self._cleans:
            self.cleaner.start()

    async def close(self) -> None:
        """Stop what runs by itself; what the scheduler runs ends with it."""
        await self.moves.close()
        await self.cleaner.close()
