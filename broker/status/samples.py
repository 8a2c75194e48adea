"""What came in and went out lately: a ring of samples, taken every few seconds from counters that are there anyway.

The only part of the status page that a broker has before anybody asks for the page. A sample looks at every topic, some
at a time so that the loop goes on, and remembers only those that have had traffic.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker.metrics.instruments import BrokerStats
from broker.metrics.loop_watch import LoopWatch
from broker.partition.traffic import Traffic

INTERVAL_MS = 5_000
MAX_SAMPLES = 120
"""Ten minutes."""
TOPICS_PER_TURN = 500
"""A topic takes some 0.3 µs, four times as much while it has traffic."""
LATE_SECONDS = 0.25
"""When the loop is later than this, every client has noticed."""


class Flow(NamedTuple):
    """What passes in a second, of a topic."""

    records_in: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0


class Sample(NamedTuple):
    """What passed in a second, of the whole broker; and how often since the sample before the loop was late."""

    records_in: float
    bytes_in: float
    bytes_out: float
    requests: float
    errors: float
    """All that were told to clients, and the failures."""
    failures: float
    """Requests that ended in a way that nobody would expect."""
    late_count: int


_Topic = tuple[int, int, int]
_NOTHING: _Topic = (0, 0, 0)
_STILL = Flow()


class _Totals(NamedTuple):
    requests: int = 0
    errors: int = 0
    failures: int = 0
    late: int = 0


class Samples:
    """The ring."""

    def __init__(
        self, traffic: Traffic, stats: BrokerStats, loop_watch: LoopWatch, monotonic_ns: Callable[[], int]
    ) -> None:
        self._traffic = traffic
        self._stats = stats
        self._loop_watch = loop_watch
        self._monotonic_ns = monotonic_ns
        # All of these are written by take.
        self.ring: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self._taken_ns = monotonic_ns()
        self._topics: dict[str, _Topic] = {}  # of those that have had traffic
        self._totals = _Totals()
        self._flows: dict[str, Flow] = {}  # between the last two samples, where something passed

    def flow(self, topic: str) -> Flow | None:
        """Return what passes in a second; None before the first sample."""
        return self._flows.get(topic, _STILL) if self.ring else None

    async def take(self) -> None:
        """Take a sample."""
        now_ns = self._monotonic_ns()
        seconds = max((now_ns - self._taken_ns) / 1e9, 1e-3)
        self._taken_ns = now_ns
        topics: dict[str, _Topic] = {}
        flows: dict[str, Flow] = {}
        for number, (name, stats) in enumerate(tuple(self._traffic.topics.items()), 1):
            if not number % TOPICS_PER_TURN:
                await asyncio.sleep(0)
            now = (stats.messages_in, stats.bytes_in, stats.bytes_out)
            if now == _NOTHING:
                continue
            topics[name] = now
            before = self._topics.get(name, _NOTHING)
            if now != before:
                # A topic that was made anew under its name begins at nothing again.
                flows[name] = Flow(*(max(one - other, 0) / seconds for one, other in zip(now, before, strict=True)))
        self._topics, self._flows = topics, flows
        before_all, self._totals = self._totals, self._count()
        requests, errors, failures, late = (one - other for one, other in zip(self._totals, before_all, strict=True))
        self.ring.append(
            Sample(
                sum(flow.records_in for flow in flows.values()),
                sum(flow.bytes_in for flow in flows.values()),
                sum(flow.bytes_out for flow in flows.values()),
                requests / seconds,
                errors / seconds,
                failures / seconds,
                late,
            )
        )

    def _count(self) -> _Totals:
        every = tuple(self._stats.requests.values())
        failures = sum(one.failed + one.malformed for one in every)
        lateness = self._loop_watch.lateness
        return _Totals(
            sum(one.latency.count for one in every),
            sum(sum(one.errors.values()) for one in every) + failures,
            failures,
            sum(lateness.counts[lateness.bounds.index(LATE_SECONDS) + 1 :]),
        )
