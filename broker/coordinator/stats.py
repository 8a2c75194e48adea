"""What coordinators count as they work; plain numbers, read at a scrape."""

from __future__ import annotations

from collections import Counter

from broker.metrics.instruments import Histogram


class RuntimeStats:
    """Of one coordinator's shards.

    Source: CoordinatorRuntimeMetricsImpl, which has a queue time of every event; here only some have to queue.
    """

    __slots__ = ("failed_loads", "load_seconds", "queue_seconds", "write_seconds")

    def __init__(self) -> None:
        self.load_seconds = Histogram()
        # From the arrival of a command that finds its shard busy to its turn.
        self.queue_seconds = Histogram()
        # From building a batch to its records being replayed.
        self.write_seconds = Histogram()
        self.failed_loads = 0


class GroupStats:
    """Of all groups of a coordinator. Source: GroupCoordinatorMetrics."""

    __slots__ = ("commits", "deletions", "expirations", "rebalances")

    def __init__(self) -> None:
        # By the kind of group; each began a new generation, or raised its epoch.
        self.rebalances: Counter[str] = Counter(classic=0, consumer=0)
        self.commits = 0
        self.expirations = 0
        self.deletions = 0
