"""Where requests wait for partitions: parked long polls, woken by appends, deletions and log start moves.

Waking only marks which partitions have changed and lets the request look again on its own turn, so many appends of one
loop turn cost one look. A `Purgatory` looks after what waits, with one call of the loop for all that were woken in a
turn and one timer for all that wait; of very many that go on together some do with each turn of the loop. Most requests
are `Parked`, plain objects. A `Waiter` belongs to one that is served by a task.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
from collections import deque
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


class Waiting:
    """One request that waits. It says itself what it does when it is woken, and when its time is up."""

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

    def look(self, changed: set[Any]) -> None:
        """Look at what has changed."""
        raise NotImplementedError

    def expire(self) -> None:
        """Stop waiting: the time is up."""
        raise NotImplementedError


class Parked(Waiting):
    """One that waits without a task."""

    __slots__ = ()

    def begin(self, answered: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Say who is called with the answer, or with why there is none: one of them, once, and later.

        The answer is what a handler may give, or its pieces.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop waiting and call nobody."""
        raise NotImplementedError


class Waiter(Waiting):
    """One that a task waits for; it parks with its first wait."""

    __slots__ = ("_is_up", "_loop", "_seen", "_told")

    def __init__(self, purgatory: Purgatory, loop: asyncio.AbstractEventLoop, wait_ms: int) -> None:
        super().__init__(purgatory)
        self._loop = loop
        self._told: asyncio.Future[None] | None = None
        self._seen: set[Any] = set()  # what has changed and was not taken
        self._is_up = False
        purgatory.park(self, wait_ms)

    def look(self, changed: set[Any]) -> None:
        """Let the task go on."""
        self._seen |= changed
        self._go_on()

    def expire(self) -> None:
        """Let the task go on, and wait no more."""
        self._is_up = True
        self._go_on()

    def _go_on(self) -> None:
        told = self._told
        if told is not None and not told.done():
            told.set_result(None)

    async def wait(self) -> bool:
        """Wait until woken; False when the time is up instead."""
        while not self._seen and not self._is_up:
            told = self._told = self._loop.create_future()
            await told
        return bool(self._seen)

    def take(self) -> set[Any]:
        """Give what has changed since the last time, also what has in this very turn of the loop."""
        changed = self._seen | self.changed
        self._seen = set()
        self.changed.clear()
        return changed

    def leave(self) -> None:
        """Be kept no longer."""
        self._purgatory.leave(self)


class Purgatory:
    """All requests of a kind that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: list[Waiting] = []
        self._due: dict[int, set[Waiting]] = {}  # tick → whose time is up then
        self._ticks: list[int] = []  # heap of the keys, and of some that are gone
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0
        self._expiring: deque[Waiting] = deque()  # whose time is up, and who have not been told

    def park(self, parked: Waiting, wait_ms: int) -> None:
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

    def leave(self, parked: Waiting) -> None:
        """Keep a request no longer. The timer stays: most waits end long before it, and others wait for it."""
        due = self._due.get(parked.due_tick)
        if due is not None:
            due.discard(parked)
            if not due:
                del self._due[parked.due_tick]
        parked.due_tick = -1

    def woken(self, parked: Waiting) -> None:
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

    def _run(self, parked: Waiting, changed: set[Any] | None) -> None:
        """Let one request go on, unless it has left; what goes wrong with it does not keep the others."""
        if parked.due_tick < 0:
            return
        try:
            if changed is not None:
                parked.look(changed)
            else:
                parked.expire()
        except Exception as failure:
            logger.error("waiting request failed reason=%s", failure, exc_info=unexplained(failure))

    def _arm(self, tick: int) -> None:
        self._timer_tick = tick
        self._timer = self._loop.call_at(tick * TICK_MS / 1000, self._on_time)

    def _on_time(self) -> None:
        now_tick = math.floor(self._loop.time() * 1000 / TICK_MS)
        ticks = self._ticks
        is_expiring = bool(self._expiring)
        while ticks and (ticks[0] <= now_tick or ticks[0] not in self._due):
            self._expiring.extend(self._due.get(heapq.heappop(ticks), ()))
        if not is_expiring:
            self._expire_some()
        self._timer = None  # not before: whoever has parked meanwhile has left the arming to us
        if ticks:
            self._arm(ticks[0])

    def _expire_some(self) -> None:
        """Let those go on whose time is up; of very many some with each turn of the loop."""
        expiring = self._expiring
        for _ in range(min(LOOKS_PER_TURN, len(expiring))):
            self._run(expiring.popleft(), None)
        if expiring:
            self._loop.call_soon(self._expire_some)
