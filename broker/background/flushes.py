"""Flushes: one at a time a log, shared by everybody who asks while one runs.

Asked for by appends that made one due, by flush.ms, after a roll, and before the recovery points are written. A flush
is planned with the loop's next turn, so appends of one turn share it; whoever comes after that shares the next one.

flush.ms is looked at in two ways. A timer runs while a log has something unflushed; log.flush.scheduler.interval.ms
adds Kafka's own periodic search, which also notices when the wall clock has been set. Neither makes a producer wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from broker.background.syncs import Syncs
from broker.metrics.instruments import Histogram
from broker.partition.partition import Partition
from broker.runtime.tasks import TaskOwner
from storage.errors import StorageFailure

NOTHING = -1


class _Work:
    """One log's flushes in progress."""

    __slots__ = ("below", "waiting")

    def __init__(self) -> None:
        self.below = NOTHING  # what the next flush must reach; raised by whoever asks, taken when it is planned
        self.waiting: list[asyncio.Future[None]] = []  # told when the next flush has ended, well or not


class _Timer(NamedTuple):
    """The timer of a log, and the setting it was armed under: under another one it would come at a wrong time."""

    handle: asyncio.TimerHandle
    flush_ms: int


class Flushes:
    """Flushes the logs of all partitions."""

    def __init__(self, syncs: Syncs, now_ms: Callable[[], int], on_synced: Callable[[], None]) -> None:
        self._syncs = syncs
        self._now_ms = now_ms
        self._on_synced = on_synced
        self._tasks = TaskOwner("flushes")
        self._work: dict[Partition, _Work] = {}
        self._timers: dict[Partition, _Timer] = {}
        self._has_sealed = False  # sealed segments were flushed since take_sealed
        self.seconds = Histogram()

    @property
    def running_count(self) -> int:
        """Partitions whose flush has not ended yet."""
        return len(self._work)

    # --- asking ---

    def ask(self, partition: Partition, below: int) -> None:
        """Flush everything below an offset; the partition is told."""
        work = self._work.get(partition)
        if work is None:
            work = self._work[partition] = _Work()
            self._tasks.spawn(str(partition.tp), self._run(partition, work))
        work.below = max(work.below, below)

    async def flush(self, partition: Partition) -> None:
        """Flush everything appended so far, and return when that has ended, well or not."""
        self.ask(partition, partition.log.log_end_offset)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work[partition].waiting.append(ended)
        await ended

    def ask_in_time(self, partition: Partition) -> None:
        """Arm the timer of flush.ms, unless it is armed, a flush is on its way, or nothing is unflushed."""
        armed = self._timers.get(partition)
        if armed is not None:
            if armed.flush_ms == partition.log.config.flush_ms:
                return
            armed.handle.cancel()
            del self._timers[partition]
        if partition in self._work:
            return
        delay_ms = partition.log.durability.ms_until_flush(self._now_ms())
        if delay_ms is not None:
            loop = asyncio.get_running_loop()
            handle = loop.call_later(delay_ms / 1000, self._on_timer, partition)
            self._timers[partition] = _Timer(handle, partition.log.config.flush_ms)

    def _on_timer(self, partition: Partition) -> None:
        del self._timers[partition]
        self._flush_if_due(partition)
        if not partition.log.is_closed:
            self.ask_in_time(partition)  # where another flush came first

    def flush_due(self, partitions: Iterable[Partition]) -> None:
        """Flush the logs for which flush.ms has passed."""
        for partition in partitions:
            self._flush_if_due(partition)

    def _flush_if_due(self, partition: Partition) -> None:
        log = partition.log
        if not log.is_closed and log.durability.ms_until_flush(self._now_ms()) == 0:
            self.ask(partition, log.log_end_offset)

    def take_sealed(self) -> bool:
        """Tell whether recovery points have moved over sealed segments since the last call."""
        had, self._has_sealed = self._has_sealed, False
        return had

    async def quiet(self, partition: Partition) -> bool:
        """Wait until nothing runs that was planned of the partition's log; tell whether something did."""
        return await self._tasks.join(str(partition.tp))

    async def close(self) -> None:
        """Arm no more timers and wait for what runs."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        await self._tasks.join()

    # --- running ---

    async def _run(self, partition: Partition, work: _Work) -> None:
        try:
            while work.below != NOTHING:
                below, work.below = work.below, NOTHING
                waiting, work.waiting = work.waiting, []
                try:
                    await self._flush(partition, below)
                finally:
                    for ended in waiting:
                        if not ended.done():
                            ended.set_result(None)
        except Exception as failure:  # a background job's border: nobody may wait for a flush that will not come
            partition.leave(failure)
            raise
        finally:
            del self._work[partition]
        if not partition.log.is_closed:
            self.ask_in_time(partition)

    async def _flush(self, partition: Partition, below: int) -> None:
        log = partition.log
        with suppress(Exception):  # what the partition was left for; the log is closed then
            await partition.in_file(below)
        if log.is_closed:
            return
        try:
            plan = log.durability.flush_plan(below)
        except StorageFailure as failure:
            partition.fail(failure)
            return
        if plan is None:
            partition.flushed(log.recovery_point)
            return
        partition.flush_planned(plan.target_offset)
        if await self._syncs.run(partition, log, plan, self.seconds):
            log.durability.flushed(plan)
            self._has_sealed |= plan.has_sealed
            partition.flushed(plan.target_offset)
            self._on_synced()
        else:
            log.durability.flush_failed(plan)
