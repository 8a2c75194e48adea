"""Searches for what is due in logs of scheduled topics that are too long for a look on the loop.

They run in the I/O pools of the logs' directories, a few at a time, and those first that somebody waits for. What one
has found is released at once; a log that grows or changes meanwhile is searched on until its watermark says all. When
there is nothing to search, what was released in leaps is counted, to say how late it was.
"""

from __future__ import annotations

import asyncio
import os.path
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from broker.metrics.instruments import DeliveryStats
from broker.partition.errors import SearchTakesTooLong
from broker.partition.partition import Partition
from broker.runtime.tasks import TaskOwner
from storage.env.clock import Clock
from storage.errors import LogClosed, StorageError

MAX_SEARCHES = 2
MAX_ATTEMPTS = 4
"""So many searches of a log one after the other may come to nothing."""

RunIo = Callable[[str, Callable[[], Any]], Awaitable[Any]]
"""Runs a call that waits for the disk of a log directory."""


class DeliverySearches:
    """Those that are to be made, and those that are."""

    def __init__(
        self,
        run_io: RunIo,
        clock: Clock,
        tasks: TaskOwner,
        stats: DeliveryStats,
        on_known: Callable[[Partition], None],
        on_unknown: Callable[[Partition], None],
    ) -> None:
        self._run_io = run_io
        self._clock = clock
        self._tasks = tasks
        self._stats = stats
        self._on_known = on_known  # the watermark says all that is due
        self._on_unknown = on_unknown  # it does not
        self._asked: dict[Partition, list[asyncio.Future[bool]]] = {}  # until they have ended, and who waits
        self._queue: deque[Partition] = deque()  # those that have not begun
        self._uncounted: dict[Partition, None] = {}  # of which something is to be counted, in this order
        self._running_count = 0

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._asked

    def ask(self, partition: Partition) -> None:
        """Have a partition searched, unless that is arranged."""
        if partition in self._asked:
            return
        self._asked[partition] = []
        self._queue.append(partition)
        self._begin()

    def count(self, partition: Partition) -> None:
        """Have what was released of a partition counted, when there is time."""
        if partition not in self._uncounted:
            self._uncounted[partition] = None
            self._begin()

    def _begin(self) -> None:
        if self._running_count < MAX_SEARCHES:
            self._running_count += 1
            self._tasks.spawn("searches", self._run_queued())

    async def wait_for(self, partition: Partition, deadline: float | None = None) -> None:
        """Have a partition searched before those that nobody waits for, and wait until that has ended.

        Raises: SearchTakesTooLong when `deadline` (loop time, seconds) comes before.
        """
        self.ask(partition)
        if partition in self._queue:
            self._queue.remove(partition)
            self._queue.appendleft(partition)
        loop = asyncio.get_running_loop()
        told: asyncio.Future[bool] = loop.create_future()
        self._asked[partition].append(told)
        timer = None if deadline is None else loop.call_at(deadline, _tell, (told,), False)
        try:
            if not await told:
                raise SearchTakesTooLong(str(partition.tp))
        finally:
            if timer is not None:
                timer.cancel()

    async def _run_queued(self) -> None:
        try:
            while self._queue or self._uncounted:
                if self._queue:
                    await self._run_search(self._queue.popleft())
                else:
                    partition = next(iter(self._uncounted))
                    del self._uncounted[partition]
                    await self._count(partition)
        finally:
            self._running_count -= 1

    async def _run_search(self, partition: Partition) -> None:
        is_known = False
        try:
            is_known = await self._search(partition)
        except Exception as failure:
            self._tasks.report(str(partition.tp), failure)
        finally:
            _tell(self._asked.pop(partition), True)
            if is_known:
                self._on_known(partition)
            else:
                self._on_unknown(partition)

    async def _search(self, partition: Partition) -> bool:
        """Search a log until its watermark says all that is due; tell whether it does."""
        attempts_left = MAX_ATTEMPTS
        while attempts_left:
            attempts_left -= 1
            log, delivery = partition.log, partition.delivery
            if delivery is None:
                return True
            search = delivery.plan_search(self._clock.now_ms())
            if search is None:
                return True
            try:
                outcome = await self._run_io(os.path.dirname(log.path), search.run)
            except LogClosed:
                continue  # a file has another name by now
            if delivery.take(search, outcome):
                attempts_left = MAX_ATTEMPTS  # the next one goes on from there
                partition.wake()
            partition.release_due()
            if delivery.has_failed:
                return False  # which it has said
        return False

    async def _count(self, partition: Partition) -> None:
        """Count some of what was released; what cannot be read any more is left out."""
        log, delivery = partition.log, partition.delivery
        count = None if delivery is None else delivery.plan_count()
        if delivery is None or count is None:
            return
        late = DeliveryStats()
        try:
            left = await self._run_io(os.path.dirname(log.path), partial(count.run, late.observe_many))
            if left is not None:
                delivery.count_later(left)
        except StorageError:
            pass
        except Exception as failure:
            self._tasks.report(str(partition.tp), failure)
        self._stats.lateness.add(late.lateness)
        if delivery.has_uncounted:
            self._uncounted[partition] = None

    async def close(self) -> None:
        """Let nobody wait any more; what runs is cancelled."""
        self._queue.clear()
        self._uncounted.clear()
        await self._tasks.close()
        for waiting in self._asked.values():
            _tell(waiting, True)
        self._asked.clear()


def _tell(waiting: Iterable[asyncio.Future[bool]], has_ended: bool) -> None:
    for told in waiting:
        if not told.done():
            told.set_result(has_ended)
