"""What a broker shows of itself over HTTP is read from these parts; some of them are only there once it has started."""

from __future__ import annotations

import time
from collections.abc import Callable

from broker.background.retention import Retention
from broker.coordinators import Coordinators
from broker.exported.parts import Watched
from broker.metrics.loop_watch import LoopWatch
from broker.runtime.recent_lines import RecentLines
from broker.status.samples import Samples
from config.views import BrokerConfig
from storage.env.clock import Clock


class Parts:
    """The parts of a broker, and what is kept of its last minutes."""

    def __init__(
        self,
        config: BrokerConfig,
        watched: Watched,
        retention: Retention,
        coordinators: Callable[[], Coordinators | None],
        clock: Clock,
        *,
        started_ns: int,
    ) -> None:
        self.config = config
        self.watched = watched
        self.retention = retention
        self.coordinators = coordinators  # None before they are started
        self.clock = clock
        self._started_ns = started_ns
        self.loop_watch = LoopWatch(clock.monotonic_ns, time.thread_time_ns)
        self.samples = Samples(watched.partitions.traffic, watched.stats, self.loop_watch, clock.monotonic_ns)
        self.lines = RecentLines()

    @property
    def uptime_seconds(self) -> float:
        """The time since the start began."""
        return (self.clock.monotonic_ns() - self._started_ns) / 1e9

    @property
    def not_ready_reason(self) -> str:
        """Why clients are not served; empty when they are."""
        step = self.watched.phase.current
        if step == "running":
            return ""
        progress = self.watched.recovery.where()
        return f"{step}: {progress}" if progress else step
