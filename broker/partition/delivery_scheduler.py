"""When scheduled records become visible: one timer for all partitions, whose passes release what has come due.

It is there for who waits, not for what is right: a fetch has its partition look at the clock itself, so a late timer
makes nothing visible early and a fetch that comes late sees all that is due. The wall clock decides, the loop's clock
is slept by: a pass comes at least every second, so a clock that is set is noticed, but there is none, and no timer,
while no topic is scheduled.

A pass looks at partitions whose first pending batch has come due. One whose log is too long for that is searched beside
the loop (broker.partition.delivery_searches); until then its watermark is only too low.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

from broker.metrics.instruments import DeliveryStats
from broker.partition.delivery_searches import DeliverySearches, RunIo
from broker.partition.partition import Partition
from broker.runtime.tasks import TaskOwner
from broker.runtime.turns import TURN_NS
from config.views import LONG_MAX
from storage.env.clock import Clock, monotonic_ms

logger = logging.getLogger(__name__)

MIN_SLEEP_MS = 1
MAX_SLEEP_MS = 1_000
RETRY_MS = 1_000
"""After so long a log is searched again that could not be read, or that changes faster than it can be searched."""
ROUNDING_MS = 2
"""So far apart may two clocks run that are read in whole milliseconds, twice each."""
MAX_STALE_ENTRIES = 1_024
NEVER = LONG_MAX
AT_ONCE = 0
"""Before whatever the wall clock tells, also when it is set back meanwhile."""


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Let it not come."""


class Timers(Protocol):
    """What the scheduler sleeps by (broker.runtime.scheduler); tests have time of their own."""

    def call_later(self, delay_ms: float, callback: Callable[[], None], /) -> Timer:
        """Call `callback` once, `delay_ms` from now, and never at once."""
        ...


class DeliveryScheduler:
    """Follows the partitions led here whose topics are scheduled (broker.partition.partition.Deliveries)."""

    def __init__(self, timers: Timers, clock: Clock, run_io: RunIo, uncertainty_ms: int, stats: DeliveryStats) -> None:
        self._timers = timers
        self._clock = clock
        self.uncertainty_ms = uncertainty_ms
        self._stats = stats
        self._due: dict[Partition, int] = {}  # when a partition is to be looked at, in wall time
        self._heap: list[tuple[int, int, Partition]] = []  # the same, and entries that have become stale
        self._numbers = count()
        self._turns: deque[Partition] = deque()  # those that the pass has still to look at
        self._timer: Timer | None = None
        self._timer_at_ms = 0  # of the monotonic clock
        self._asleep_since_ms = (0, 0)  # wall and monotonic clock when it had no timer and set one
        self._tasks = TaskOwner("delivery")
        self._searches = DeliverySearches(run_io, clock, self._tasks, stats, self.follow, self._retry)
        self._held_up: set[Partition] = set()  # whose last search has come to nothing
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._due)

    @property
    def held_up(self) -> list[Partition]:
        """Those whose last search has come to nothing, for now: the log cannot be read, as a rule."""
        return list(self._held_up)

    # --- what is followed ---

    def follow(self, partition: Partition) -> None:
        """Look at a partition when its next batch comes due, as long as it is scheduled and led here."""
        delivery = partition.delivery
        if delivery is None or self._is_closed:
            if self._due.pop(partition, None) is not None:
                self._held_up.discard(partition)
                if not self._due:
                    self._fall_asleep_for_good()
            return
        if delivery.has_uncounted:
            self._searches.count(partition)
        if not delivery.is_behind:
            self._held_up.discard(partition)
            due_ms = delivery.due_ms
            self._note(partition, NEVER if due_ms is None else due_ms)
        elif partition in self._searches:
            self._note(partition, NEVER)
        elif partition not in self._held_up:
            self._note(partition, AT_ONCE)

    def _note(self, partition: Partition, due_ms: int) -> None:
        if self._due.get(partition) == due_ms:
            return
        self._due[partition] = due_ms
        if due_ms < NEVER:
            heapq.heappush(self._heap, (due_ms, next(self._numbers), partition))
            if len(self._heap) > MAX_STALE_ENTRIES + 2 * len(self._due):
                self._heap = [entry for entry in self._heap if self._is_current(entry)]
                heapq.heapify(self._heap)
        if not self._turns:
            self._arm()

    def _is_current(self, entry: tuple[int, int, Partition]) -> bool:
        return self._due.get(entry[2]) == entry[0]

    # --- sleeping ---

    def _arm(self) -> None:
        """Sleep until the next partition is due, unless a timer comes sooner."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heapq.heappop(heap)
        delay_ms = MAX_SLEEP_MS
        if heap:
            delay_ms = max(MIN_SLEEP_MS, min(heap[0][0] - self._clock.now_ms(), MAX_SLEEP_MS))
        at_ms = monotonic_ms(self._clock) + delay_ms
        if self._timer is None:
            self._asleep_since_ms = self._clock.now_ms(), monotonic_ms(self._clock)
        elif self._timer_at_ms <= at_ms:
            return
        else:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._timers.call_later(delay_ms, self._on_time)

    def _fall_asleep_for_good(self) -> None:
        self._heap.clear()
        self._turns.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._stats.wakeups += 1
        self._watch_clock()
        now_ms = self._clock.now_ms()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heapq.heappop(heap)
            if self._is_current(entry):
                self._turns.append(entry[2])
        self._pass()

    def _pass(self) -> None:
        """Look at those whose turn it is, as many as the loop may wait for, the others with its next turn."""
        self._timer = None
        until_ns = self._clock.monotonic_ns() + TURN_NS
        while self._turns:
            self._look(self._turns.popleft())
            if self._turns and self._clock.monotonic_ns() >= until_ns:
                self._timer = self._timers.call_later(0, self._pass)
                return
        if self._due:
            self._arm()

    def _look(self, partition: Partition) -> None:
        """Release what has come due; what goes wrong with one partition does not keep the others."""
        if partition not in self._due:
            return
        self._due[partition] = NEVER  # whatever it is due for next is to be noted
        try:
            partition.release_due()
            delivery = partition.delivery
            if delivery is not None and delivery.is_behind:
                self._searches.ask(partition)
            self.follow(partition)
        except Exception as failure:
            self._tasks.report(str(partition.tp), failure)
            self._retry(partition)

    def _retry(self, partition: Partition) -> None:
        if partition in self._due:
            self._held_up.add(partition)
            self._note(partition, self._clock.now_ms() + RETRY_MS)

    def _watch_clock(self) -> None:
        """Warn if the wall clock was set during the sleep: the bound that nothing early rests on did not hold."""
        wall_ms, monotonic = self._clock.now_ms(), monotonic_ms(self._clock)
        last_wall_ms, last_monotonic = self._asleep_since_ms
        jump_ms = (wall_ms - last_wall_ms) - (monotonic - last_monotonic)
        if abs(jump_ms) > self.uncertainty_ms + ROUNDING_MS:
            logger.warning(
                "the wall clock has jumped by_ms=%d uncertainty_ms=%d: scheduled records may be visible too %s",
                jump_ms,
                self.uncertainty_ms,
                "early" if jump_ms > 0 else "late",
            )
            for partition in self.held_up:
                self._retry(partition)  # whose time was told by the clock as it was

    # --- searches ---

    async def catch_up(self, partition: Partition, deadline: float | None = None) -> None:
        """Wait until a partition's watermark says all that is due, or it is clear that this cannot be found out now.

        Raises: SearchTakesTooLong when `deadline` (loop time, seconds) comes before.
        """
        partition.release_due()
        delivery = partition.delivery
        if delivery is not None and delivery.is_behind and partition in self._due:
            await self._searches.wait_for(partition, deadline)

    async def close(self) -> None:
        """Look at nothing any more."""
        self._is_closed = True
        self._due.clear()
        self._fall_asleep_for_good()
        await self._searches.close()
