"""A scheduler of scheduled topics whose partitions, clock, timers and disk are a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker.metrics.instruments import DeliveryStats
from broker.partition.delivery_scheduler import DeliveryScheduler
from tests.harness.scheduled import E_MS


class Stand:
    """Stands for a partition whose first batch is due at a time, and which takes some of the loop's to be released."""

    def __init__(self, tp: str, rig: Stands, due_ms: int) -> None:
        self.tp = tp
        self.rig = rig
        self.due_ms: int | None = due_ms
        self.then_ms: int | None = None  # when it is due next
        self.is_behind = False
        self.stays_behind = False  # whatever a search has found
        self.has_uncounted = False
        self.has_failed = False
        self.log = self
        self.delivery: Stand | None = self
        self.fails = False
        self.path = f"/{tp}"

    def plan_search(self, now_ms: int) -> Stand | None:
        return self if self.is_behind else None

    def run(self) -> None:
        self.rig.searched.append(self.tp)
        if self.fails:
            raise RuntimeError("out of order")

    def take(self, search: Stand, found: None) -> bool:
        self.is_behind = self.stays_behind
        return False

    def release_due(self) -> None:
        self.rig.clock.now_ns += 400_000
        self.rig.released.append(self.tp)
        if self.fails:
            raise RuntimeError("out of order")
        self.due_ms = self.then_ms
        self.rig.deliveries.follow(self)  # type: ignore[arg-type]


class FineClock:
    """One clock that is both, in nanoseconds, until somebody sets the wall clock."""

    now_ns = 0
    set_by_ms = 0

    def now_ms(self) -> int:
        return self.now_ns // 1_000_000 + self.set_by_ms

    def monotonic_ns(self) -> int:
        return self.now_ns


class Stands:
    """A scheduler of stands; its timers are called by hand."""

    def __init__(self) -> None:
        self.clock = FineClock()
        self.calls: list[tuple[float, Callable[[], None]]] = []
        self.stats = DeliveryStats()
        self.released: list[str] = []
        self.searched: list[str] = []
        self.running_count = self.most_running = 0  # of the searches
        self.deliveries = DeliveryScheduler(self, self.clock, self.run_io, E_MS, self.stats)

    async def run_io(self, log_dir: str, call: Callable[[], Any]) -> Any:
        self.running_count += 1
        self.most_running = max(self.most_running, self.running_count)
        try:
            call()
            await asyncio.sleep(0)
        finally:
            self.running_count -= 1

    async def searches_end(self) -> None:
        """Let the loop turn often enough for all searches."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert not self.deliveries._searches._running_count

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Stands:
        self.calls.append((delay_ms, callback))
        return self

    def cancel(self) -> None:
        self.calls.pop()

    def stand(self, due_ms: int) -> Stand:
        stand = Stand(f"t-{len(self.deliveries)}", self, due_ms)
        self.deliveries.follow(stand)  # type: ignore[arg-type]
        return stand

    def run_next(self) -> float:
        ((delay_ms, callback),) = self.calls
        self.calls.clear()
        self.clock.now_ns += int(delay_ms * 1_000_000)
        callback()
        return delay_ms
