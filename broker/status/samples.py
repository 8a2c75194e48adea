"""What came in and went out lately: a ring of samples, taken every few seconds from counters that are there anyway.

The only part of the status page that a broker has before anybody asks for the page. A sample looks at every partition,
some at a time so that the loop goes on, and remembers only those that have had traffic.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.metrics.instruments import BrokerStats
from broker.partition.partition import Partition
from storage.types import TopicPartition

INTERVAL_MS = 5_000
MAX_SAMPLES = 120
"""Ten minutes."""
PARTITIONS_PER_TURN = 500
"""A partition takes some 0.2 µs."""


class Flow(NamedTuple):
    """What passes in a second, of a partition."""

    records_in: float = 0.0
    bytes_in: float = 0.0


class Sample(NamedTuple):
    """What passed in a second, of the whole broker."""

    records_in: float
    bytes_in: float
    requests: float
    errors: float


_Counters = tuple[int, int]
_NOTHING: _Counters = (0, 0)
_STILL = Flow()


class Samples:
    """The ring."""

    def __init__(self, partitions: Iterable[Partition], stats: BrokerStats, monotonic_ns: Callable[[], int]) -> None:
        self._partitions = partitions
        self._stats = stats
        self._monotonic_ns = monotonic_ns
        # All of these are written by take.
        self.ring: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self._taken_ns = monotonic_ns()
        self._counters: dict[TopicPartition, _Counters] = {}  # of the partitions that have had traffic
        self._requests = (0, 0)
        self._flows: dict[TopicPartition, Flow] = {}  # between the last two samples, where something passed

    def flow(self, tp: TopicPartition) -> Flow | None:
        """Return what passes in a second; None before the first sample."""
        return self._flows.get(tp, _STILL) if self.ring else None

    async def take(self) -> None:
        """Take a sample."""
        now_ns = self._monotonic_ns()
        seconds = max((now_ns - self._taken_ns) / 1e9, 1e-3)
        self._taken_ns = now_ns
        counters: dict[TopicPartition, _Counters] = {}
        flows: dict[TopicPartition, Flow] = {}
        for number, partition in enumerate(tuple(self._partitions), 1):
            if not number % PARTITIONS_PER_TURN:
                await asyncio.sleep(0)
            now = (partition.appended_records, partition.appended_bytes)
            if now == _NOTHING:
                continue
            tp = partition.tp
            counters[tp] = now
            before = self._counters.get(tp, _NOTHING)
            if now != before:
                # A partition that was made anew under its name begins at nothing again.
                flows[tp] = Flow(*(max(one - other, 0) / seconds for one, other in zip(now, before, strict=True)))
        self._counters, self._flows = counters, flows
        requests, errors = self._count_requests()
        self.ring.append(
            Sample(
                sum(flow.records_in for flow in flows.values()),
                sum(flow.bytes_in for flow in flows.values()),
                (requests - self._requests[0]) / seconds,
                (errors - self._requests[1]) / seconds,
            )
        )
        self._requests = requests, errors

    def _count_requests(self) -> tuple[int, int]:
        every = self._stats.requests.values()
        return (
            sum(sum(one.latency.counts) for one in every),
            sum(one.failed + one.malformed for one in every),
        )
