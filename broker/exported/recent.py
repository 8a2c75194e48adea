"""Quantiles of lately, estimated from histograms that count since the start.

Kafka's own come from a sample that forgets within minutes. Here two looks at a histogram are compared: now, and some
minutes ago. Within a bucket the times are taken to lie evenly, as Prometheus does. Only scrapes cost anything.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from broker.metrics.instruments import Histogram
from broker.metrics.sources import Summary

QUANTILES = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
WINDOW_NS = 300_000_000_000
"""How far back is looked at least, once the broker is so old."""
STEP_NS = 60_000_000_000
MS_PER_S = 1000

Look = tuple[int, tuple[int, ...], int]
"""When, the counts of the buckets, and how many took no time at all."""


class Recent:
    """What is remembered of one histogram."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def summary(self, now_ns: int, histogram: Histogram, everybody: Histogram | None = None) -> Summary:
        """Return quantiles of lately, and count and sum of all, in milliseconds.

        With `everybody` given, those of it that the histogram does not have took no time.
        """
        count = histogram.count if everybody is None else everybody.count
        zeros = count - histogram.count
        counts = tuple(histogram.counts)
        looks = self._looks
        while len(looks) > 1 and now_ns - looks[1][0] >= WINDOW_NS:
            looks.popleft()
        _, before, zeros_before = looks[0] if looks else (0, (0,) * len(counts), 0)
        lately = [now - then for now, then in zip(counts, before, strict=True)]
        if not looks or now_ns - looks[-1][0] >= STEP_NS:
            looks.append((now_ns, counts, zeros))
        quantiles = tuple(
            (name, MS_PER_S * quantile(share, histogram.bounds, lately, zeros - zeros_before))
            for name, share in QUANTILES.items()
        )
        return Summary(quantiles, count, MS_PER_S * histogram.total)


def quantile(share: float, bounds: Sequence[float], counts: Sequence[int], zeros: int = 0) -> float:
    """Estimate a quantile of observations that are counted by upper bounds; not a number where there are none."""
    total = zeros + sum(counts)
    if not total:
        return math.nan
    rank = share * total - zeros
    if rank <= 0:
        return 0.0
    lower = 0.0
    for upper, count in zip(bounds, counts, strict=False):
        if rank <= count:
            return lower + (upper - lower) * rank / count
        rank -= count
        lower = upper
    return lower
