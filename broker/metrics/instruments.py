"""What the broker counts as it works: plain numbers, read by the collectors at scrape.

A prometheus_client counter costs a lock at every step; the data path counts in ints on the loop thread instead.
"""

from __future__ import annotations

from bisect import bisect_left

LATENCY_BOUNDS_SECONDS = (
    *(0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
    *(5.0, 10.0, 30.0),
)
"""A produce takes 12 us, a long poll half a second."""


DELIVERY_BOUNDS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
"""A pass of the scheduler is some milliseconds late, a record behind a pending one by whatever that asks for."""


class Histogram:
    """Counts observations by fixed upper bounds; the last bucket has none."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_many(self, value: float, count: int) -> None:
        """Count so many observations of one value."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def add(self, other: Histogram) -> None:
        """Add another one's, with the same bounds."""
        self.counts = [one + another for one, another in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class WaitStats:
    """What became of the requests of an API that had to wait."""

    __slots__ = ("total", "waited", "worked")

    def __init__(self) -> None:
        self.total = Histogram()
        self.worked = Histogram()  # until they waited
        self.waited = Histogram()  # from then on


class RequestStats:
    """One API's requests."""

    __slots__ = ("errors", "failed", "latency", "malformed", "received_bytes", "waits")

    def __init__(self) -> None:
        self.latency = Histogram()
        self.waits: WaitStats | None = None  # since the first one that had to
        self.errors: dict[int, int] = {}  # told to clients, by code; a response may tell many
        self.received_bytes = 0
        self.failed = 0
        self.malformed = 0

    def count_errors(self, codes: list[int]) -> None:
        """Count what a response tells."""
        errors = self.errors
        for code in codes:
            errors[code] = errors.get(code, 0) + 1

    def observe_wait(self, worked: float, waited: float) -> None:
        """Count a request that had to wait; both in seconds."""
        waits = self.waits
        if waits is None:
            waits = self.waits = WaitStats()
        waits.worked.observe(worked)
        waits.waited.observe(waited)
        waits.total.observe(worked + waited)
        self.latency.observe(worked + waited)


class TopicStats:
    """One topic's traffic. A request counts once for every partition it names, as in Kafka."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        self.failed_fetch_requests = 0

    def add(self, other: TopicStats) -> None:
        """Add another topic's."""
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.bytes_out += other.bytes_out
        self.bytes_rejected += other.bytes_rejected
        self.produce_requests += other.produce_requests
        self.failed_produce_requests += other.failed_produce_requests
        self.fetch_requests += other.fetch_requests
        self.failed_fetch_requests += other.failed_fetch_requests


class ScrapeStats:
    """What reading all this costs."""

    __slots__ = ("busy_ns", "longest_slice_ns", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram()
        self.busy_ns = 0
        self.longest_slice_ns = 0  # of the last scrape


class DeliveryStats:
    """How well scheduled records are released."""

    __slots__ = ("lateness", "wakeups")

    def __init__(self) -> None:
        self.lateness = Histogram(DELIVERY_BOUNDS_SECONDS)
        self.wakeups = 0  # passes of the scheduler

    def observe_lateness(self, lateness_ms: int) -> None:
        """Count a batch that was pending and has become visible."""
        self.lateness.observe(lateness_ms / 1000)

    def observe_many(self, lateness_ms: int, count: int) -> None:
        """Count so many."""
        self.lateness.observe_many(lateness_ms / 1000, count)


class BrokerStats:
    """Everything counted outside storage."""

    __slots__ = ("deliveries", "refused_frames", "requests", "scrapes")

    def __init__(self) -> None:
        self.deliveries = DeliveryStats()
        self.scrapes = ScrapeStats()
        self.requests: dict[str, RequestStats] = {}
        self.refused_frames = 0

    def of(self, api: str) -> RequestStats:
        """Give the counters of an API."""
        return self.requests.setdefault(api, RequestStats())
