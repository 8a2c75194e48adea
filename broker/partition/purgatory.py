"""Where requests wait for partitions: parked long polls, woken by appends, deletions and log start moves.

Waking only marks which partitions have changed and lets the request look again on its own turn, so many appends of one
loop turn cost one look. Most requests are `Parked`: plain objects, looked after by one `Purgatory`, with one call of
the loop for all that were woken in a turn and one timer for all that wait. A `Waiter` belongs to a request that is
served by a task and awaits one future.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from broker.runtime.failures import unexplained

logger = logging.getLogger(__name__)

TICK_MS = 1
"""Requests whose time is up in the same tick are kept together: the loop's own timers are no finer."""

MAX_STALE_TICKS = 1024
LOOKS_PER_TURN = 64
"""So many requests look in one turn of the loop, some 20 µs each with their answers."""


class Wakeable(Protocol):
    """What waits at a partition."""

    def wake(self, source: Hashable) -> None:
        """Note that `source` has changed."""


class Waiter:
    """One request that is served by a task."""

    __slots__ = ("_future", "changed")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self.changed: set[Any] = set()  # what has woken us since the last look

    def wake(self, source: Hashable) -> None:
        """Note that `source` has changed and let the request go on."""
        self.changed.add(source)
        future = self._future
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, loop: asyncio.AbstractEventLoop, deadline: float) -> bool:
        """Wait until woken; False when `deadline` (loop time, seconds) has passed instead."""
        if self.changed:
            return True
        future = self._future = loop.create_future()
        timer = loop.call_at(deadline, _expire, future)
        try:
            await future
        finally:
            timer.cancel()
            self._future = None
        return bool(self.changed)


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Parked:
    """One request that waits without a task. It says itself what it does when it is woken, and when its time is up."""

    __slots__ = ("_purgatory", "changed", "due_tick")

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self.changed: set[Any] = set()  # what has woken us since the last look
        self.due_tick = -1  # written by the purgatory; -1 while it does not keep us

    def wake(self, source: Hashable) -> None:
        """Note that `source` has changed; `look` follows at the end of the loop's turn, or soon after it."""
        changed = self.changed
        if not changed:
            self._purgatory.woken(self)
        changed.add(source)

    def begin(self, answered: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Say who is called with the answer, or with why there is none: one of them, once, and later.

        The answer is what a handler may give, or its pieces.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop waiting and call nobody."""
        raise NotImplementedError

    def look(self, changed: set[Any]) -> None:
        """Look at what has changed."""
        raise NotImplementedError

    def expire(self) -> None:
        """Stop waiting: the time is up."""
        raise NotImplementedError


class Purgatory:
    """All parked requests of a kind."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: list[Parked] = []
        self._due: dict[int, set[Parked]] = {}  # tick → whose time is up then
        self._ticks: list[int] = []  # heap of the keys, and of some that are gone
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0

    def park(self, parked: Parked, wait_ms: int) -> None:
        """Keep a request until `leave`, or until its time is up; that is never too early."""
        tick = parked.due_tick = math.ceil((self._loop.time() * 1000 + wait_ms) / TICK_MS)
        due = self._due.get(tick)
        if due is not None:
            due.add(parked)
            return
        self._due[tick] = {parked}
        heapq.heappush(self._ticks, tick)
        if len(self._ticks) > MAX_STALE_TICKS + 2 * len(self._due):
            self._ticks[:] = self._due
            heapq.heapify(self._ticks)
        if self._timer is None:
            self._arm(tick)
        elif tick < self._timer_tick:
            self._timer.cancel()
            self._arm(tick)

    def leave(self, parked: Parked) -> None:
        """Keep a request no longer. The timer stays: most waits end long before it, and others wait for it."""
        due = self._due.get(parked.due_tick)
        if due is not None:
            due.discard(parked)
            if not due:
                del self._due[parked.due_tick]
        parked.due_tick = -1

    def woken(self, parked: Parked) -> None:
        """Let a request look after those that were woken before it, at the end of this turn at the earliest."""
        if not self._woken:
            self._loop.call_soon(self._look)
        self._woken.append(parked)

    def expire_all(self) -> None:
        """Wait no longer for anything."""
        for due in tuple(self._due.values()):
            for parked in tuple(due):
                self._run(parked, None)

    def _look(self) -> None:
        """Let those go on that were woken; of very many some with each turn of the loop, in their order."""
        woken, self._woken = self._woken[:LOOKS_PER_TURN], self._woken[LOOKS_PER_TURN:]
        if self._woken:
            self._loop.call_soon(self._look)
        for parked in woken:
            changed, parked.changed = parked.changed, set()
            self._run(parked, changed)

    def _run(self, parked: Parked, changed: set[Any] | None) -> None:
        """Let one request go on, unless it has left; what goes wrong with it does not keep the others."""
        if parked.due_tick < 0:
            return
        try:
            if changed is not None:
                parked.look(changed)
            else:
                parked.expire()
        except Exception as failure:
            logger.error("parked request failed reason=%s", failure, exc_info=unexplained(failure))

    def _arm(self, tick: int) -> None:
        self._timer_tick = tick
        self._timer = self._loop.call_at(tick * TICK_MS / 1000, self._on_time)

    def _on_time(self) -> None:
        now_tick = math.floor(self._loop.time() * 1000 / TICK_MS)
        ticks = self._ticks
        while ticks and (ticks[0] <= now_tick or ticks[0] not in self._due):
            for parked in tuple(self._due.get(heapq.heappop(ticks), ())):
                self._run(parked, None)
        self._timer = None  # not before: whoever has parked meanwhile has left the arming to us
        if ticks:
            self._arm(ticks[0])
