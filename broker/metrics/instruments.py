"""What the broker counts as it works: plain numbers, read by the collectors at scrape.

A prometheus_client counter costs a lock at every step; the data path counts in ints on the loop thread instead.
"""

from __future__ import annotations

from bisect import bisect_left

LATENCY_BOUNDS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Histogram:
    """Counts observations by fixed upper bounds; the last bucket has none."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class RequestStats:
    """One API's requests."""

    __slots__ = ("failed", "latency", "malformed", "received_bytes")

    def __init__(self) -> None:
        self.latency = Histogram()
        self.received_bytes = 0
        self.failed = 0
        self.malformed = 0


class ScrapeStats:
    """What reading all this costs."""

    __slots__ = ("busy_ns", "longest_slice_ns", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram()
        self.busy_ns = 0
        self.longest_slice_ns = 0  # of the last scrape


class BrokerStats:
    """Everything counted outside storage."""

    __slots__ = ("refused_frames", "requests", "scrapes")

    def __init__(self) -> None:
        self.scrapes = ScrapeStats()
        self.requests: dict[str, RequestStats] = {}
        self.refused_frames = 0

    def of(self, api: str) -> RequestStats:
        """Give the counters of an API."""
        return self.requests.setdefault(api, RequestStats())
