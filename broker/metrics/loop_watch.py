"""How late the event loop is, and how busy: a timer that looks how long after its time it is called.

Ten looks a second cost nothing that could be measured, and a stall of some length is met by one of them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from broker.metrics.instruments import Histogram

INTERVAL_NS = 100_000_000
MEMORY_NS = 60_000_000_000
"""Of the busy share: what was so long ago counts a third of what is now, as in Kafka's one-minute rates."""

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class LoopWatch:
    """Looks at the loop that it is started on."""

    def __init__(self, monotonic_ns: Callable[[], int], thread_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self._thread_ns = thread_ns  # what the calling thread has computed so far
        self._call_later: CallLater
        self._timer: asyncio.TimerHandle | None = None
        self._looked_ns = self._worked_ns = 0
        self.lateness = Histogram()
        self.busy_share = 0.0

    def start(self, call_later: CallLater) -> None:
        """Begin to look."""
        self._call_later = call_later
        self._looked_ns, self._worked_ns = self._monotonic_ns(), self._thread_ns()
        self._arm()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._timer = self._call_later(INTERVAL_NS / 1e9, self._look)

    def _look(self) -> None:
        now_ns, worked_ns = self._monotonic_ns(), self._thread_ns()
        passed_ns = now_ns - self._looked_ns
        self.lateness.observe(max(0, passed_ns - INTERVAL_NS) / 1e9)
        busy = min(1.0, (worked_ns - self._worked_ns) / max(passed_ns, 1))
        self.busy_share += (busy - self.busy_share) * -math.expm1(-passed_ns / MEMORY_NS)
        self._looked_ns, self._worked_ns = now_ns, worked_ns
        self._arm()
