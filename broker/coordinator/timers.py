"""Deadlines of a coordinator: one heap, one armed wake-up, cheap to push back.

Most timers here are member sessions, pushed back by every heartbeat and hardly ever firing. So a timer keeps its own
deadline and has at most one entry in the heap: pushing it back writes one attribute, and an entry that surfaces too
early is put back with the deadline of the moment. Time is monotonic; a wall clock that is set expels nobody.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol


class WakeUp(Protocol):
    """A pending call that can be taken back."""

    def cancel(self) -> None:
        """Take it back."""


class TimeSource(Protocol):
    """Monotonic time and calls at a later time; the broker's Scheduler is one."""

    def now_ms(self) -> float:
        """Give monotonic milliseconds."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> WakeUp:
        """Call back once, `delay_ms` from now."""


class Timer:
    """One deadline; None while it is not set."""

    __slots__ = ("_callback", "_timers", "deadline_ms", "entry_ms")

    def __init__(self, timers: Timers, callback: Callable[[], None]) -> None:
        self._timers = timers
        self._callback = callback
        self.deadline_ms: float | None = None
        # When the heap will look at this timer; None while it has no entry there.
        self.entry_ms: float | None = None

    def start(self, delay_ms: float) -> None:
        """Set the deadline, replacing the one that was set."""
        timers = self._timers
        deadline_ms = timers.now_ms() + delay_ms
        self.deadline_ms = deadline_ms
        if self.entry_ms is None or deadline_ms < self.entry_ms:
            timers.enter(self, deadline_ms)

    def cancel(self) -> None:
        """Unset the deadline."""
        self.deadline_ms = None

    def fire(self) -> None:
        """Run the callback."""
        self.deadline_ms = None
        self._callback()


class Timers:
    """The heap of every timer of one coordinator."""

    def __init__(self, time_source: TimeSource) -> None:
        self._time = time_source
        self.now_ms = time_source.now_ms
        self._heap: list[tuple[float, int, Timer]] = []
        # Breaks ties in the order timers were set.
        self._entered = 0
        self._wake_up: WakeUp | None = None
        self._wake_up_ms = 0.0

    def timer(self, callback: Callable[[], None]) -> Timer:
        """Create a timer, not yet set."""
        return Timer(self, callback)

    def enter(self, timer: Timer, at_ms: float) -> None:
        """Have the heap look at a timer at that time; an entry it already has becomes void."""
        timer.entry_ms = at_ms
        self._entered += 1
        heapq.heappush(self._heap, (at_ms, self._entered, timer))
        if self._wake_up is None or at_ms < self._wake_up_ms:
            self._arm(at_ms)

    def fire_due(self) -> None:
        """Fire everything whose deadline has passed, in order of deadline, then arm for the next."""
        self._wake_up = None
        now_ms = self.now_ms()
        try:
            while self._heap and self._heap[0][0] <= now_ms:
                at_ms, _, timer = heapq.heappop(self._heap)
                if timer.entry_ms == at_ms:
                    self._look_at(timer, now_ms)
        finally:
            # Also after a failed callback, else no timer would ever fire again.
            if self._heap and (self._wake_up is None or self._heap[0][0] < self._wake_up_ms):
                self._arm(self._heap[0][0])

    def close(self) -> None:
        """Forget every timer."""
        self._heap.clear()
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None

    def _look_at(self, timer: Timer, now_ms: float) -> None:
        timer.entry_ms = None
        if timer.deadline_ms is None:
            return
        if timer.deadline_ms <= now_ms:
            timer.fire()
        else:
            self.enter(timer, timer.deadline_ms)

    def _arm(self, at_ms: float) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._wake_up_ms = at_ms
        self._wake_up = self._time.call_later(at_ms - self.now_ms(), self.fire_due)
