"""The timer that looks how late the loop is, and how busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.metrics.loop_watch import INTERVAL_NS, MEMORY_NS, LoopWatch


class Rig:
    """A loop whose timers are called when the test says so."""

    def __init__(self) -> None:
        self.now_ns = self.worked_ns = 1_000
        self.timers: list[Callable[[], None]] = []
        self.cancelled = 0
        self.watch = LoopWatch(lambda: self.now_ns, lambda: self.worked_ns)
        self.watch.start(self.call_later)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        assert seconds == INTERVAL_NS / 1e9
        self.timers.append(callback)
        return cast(Any, self)

    def cancel(self) -> None:
        self.cancelled += 1

    def look(self, *, late_ns: int = 0, busy: float = 0.0) -> None:
        passed_ns = INTERVAL_NS + late_ns
        self.now_ns += passed_ns
        self.worked_ns += int(busy * passed_ns)
        self.timers.pop()()


def test_lateness_is_what_has_passed_beyond_the_interval() -> None:
    rig = Rig()
    rig.look()
    rig.look(late_ns=4_000_000)
    assert rig.watch.lateness.total == pytest.approx(0.004)
    assert rig.watch.lateness.count == 2
    assert len(rig.timers) == 1, "it looks on"


def test_the_busy_share_follows_what_the_thread_has_computed_within_a_minute() -> None:
    rig = Rig()
    assert rig.watch.busy_share == 0
    for _ in range(MEMORY_NS // INTERVAL_NS):
        rig.look(busy=0.5)
    assert rig.watch.busy_share == pytest.approx(0.5 * 0.632, abs=0.01)
    for _ in range(10 * MEMORY_NS // INTERVAL_NS):
        rig.look(busy=0.5)
    assert rig.watch.busy_share == pytest.approx(0.5, abs=0.001)


def test_it_ends_with_its_timer() -> None:
    rig = Rig()
    rig.watch.stop()
    assert rig.cancelled == 1
