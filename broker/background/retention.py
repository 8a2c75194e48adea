"""Retention: lets the oldest segments of each log go by log start, size and time, at every check interval.

Storage decides on the loop and changes the log there; renames and unlinks run in the I/O pool of the log's directory.
Logs that are compacted and expire too go the same way, except while they are being compacted; the cleaner may ask for
one as well. Source: Kafka's LogManager.cleanupLogs.
"""

from __future__ import annotations

import asyncio
import logging
import os.path
from collections.abc import Callable

from broker.background.checkpoints import Checkpoints
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from config.views import LogManagerConfig
from storage.env.clock import Clock
from storage.errors import StorageError, StorageFailure
from storage.types import TopicPartition

logger = logging.getLogger(__name__)

PARTITIONS_PER_TURN = 32
"""So many logs without anything to delete are looked at before the loop gets its turn, some 5 µs each."""


def _never(tp: TopicPartition) -> bool:
    return False


class Retention:
    """Does to logs what storage decides."""

    def __init__(
        self,
        partitions: PartitionManager,
        pools: Pools,
        clock: Clock,
        config: LogManagerConfig,
        checkpoints: Checkpoints,
        *,
        is_busy: Callable[[TopicPartition], bool] = _never,
    ) -> None:
        self._partitions = partitions
        self._pools = pools
        self._clock = clock
        self._config = config
        self._checkpoints = checkpoints
        self._is_busy = is_busy
        # Written by run_once.
        self.last_run_seconds = 0.0
        self.checked_count = 0  # logs, by the run that goes on or was the last one
        self.to_check_count = 0

    def start(self, scheduler: Scheduler) -> None:
        """Begin the periodic work."""
        config = self._config
        scheduler.every(
            "retention", config.retention_check_interval_ms, self.run_once, first_delay_ms=config.initial_task_delay_ms
        )

    async def run_once(self) -> None:
        """Look at every log; unlink what has no delay."""
        started_ns = self._clock.monotonic_ns()
        partitions = tuple(self._partitions)
        self.checked_count, self.to_check_count = 0, len(partitions)
        for number, partition in enumerate(partitions, 1):
            await self.apply(partition)
            self.checked_count = number
            if number % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        await self._checkpoints.after_maintenance()
        self.last_run_seconds = (self._clock.monotonic_ns() - started_ns) / 1e9

    async def apply(self, partition: Partition) -> int:
        """Let everything go that has no reason to stay, but while the log is compacted; return how many segments went.

        A disk that fails takes its directory offline; any other failure is this log's alone.
        """
        log, count = partition.log, 0
        try:
            while not self._is_busy(log.tp) and (removal := log.retain(self._clock.now_ms())) is not None:
                partition.wake()  # whoever waits for more at a removed offset must learn that it is gone
                await self._pools.io(os.path.dirname(log.path), removal.rename)
                log.removed(removal)
                count += removal.segment_count
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)
        except StorageError as failure:  # a log that makes no sense, or whose settings let no segment be rolled
            logger.error("cannot apply retention partition=%s reason=%s", partition.tp, failure)
        return count
