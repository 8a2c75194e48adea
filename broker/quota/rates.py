"""How much was done lately: a rate over sampled windows, and a bucket of tokens; pure arithmetic on given times.

Both behave to the millisecond as Kafka's do, since what clients see, the time they are throttled for, follows from
them. Times are milliseconds of any clock that never goes back; quotas are per second.

Source: Rate, SampledStat, TokenBucket, QuotaUtils.
"""

from __future__ import annotations

from typing import Final, NamedTuple

INT_MAX: Final = 2**31 - 1
"""The longest throttle time that a response can name, nearly 25 days."""


class Windows(NamedTuple):
    """How a rate is sampled: in so many windows, each so long."""

    number: int = 11
    size_ms: int = 1_000

    @property
    def span_ms(self) -> int:
        """How long a window counts after the last thing that happened in it."""
        return self.number * self.size_ms

    @property
    def seconds_allowed_at_once(self) -> float:
        """What stays within the quota when nothing else was done, in seconds of it."""
        return (self.number - 1) * self.size_ms / 1000


class SampledRate:
    """The sum of the windows that still count, over the time that they span.

    A window begins with the first record after the end of the one before, and counts until `span_ms` after its last
    record. One more window is kept than counted: the oldest overlaps the span. A rate that has just begun is measured
    over all windows but the running one as if they had been empty, so that a first burst is not taken for a flood.
    """

    __slots__ = ("_at", "_expiry_ms", "_last", "_oldest_start", "_starts", "_values", "_windows", "total")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        # A ring of windows: when each began, when something was last recorded in it, and how much in all.
        self._starts = [now_ms]
        self._last = [now_ms]
        self._values = [0.0]
        self._at = 0
        # What follows from the ring, kept since most records change next to nothing of it.
        self.total = 0.0
        self._oldest_start = now_ms
        self._expiry_ms = now_ms + windows.span_ms  # no window has to go before

    def record(self, amount: float, now_ms: int) -> None:
        """Count what was done now; a negative amount takes back."""
        if now_ms - self._starts[self._at] >= self._windows.size_ms:
            self._begin_window(now_ms)
        self._values[self._at] += amount
        self._last[self._at] = now_ms
        self.total += amount

    def level(self, quota: float, now_ms: int) -> float:
        """Return what is to be shown of it, the rate."""
        return self.per_second(now_ms)

    def per_second(self, now_ms: int) -> float:
        """Return the rate as of now."""
        span_ms = self.measured_ms(now_ms)
        return self.total * 1000 / span_ms

    def measured_ms(self, now_ms: int) -> int:
        """Return the time that the rate is taken over."""
        if now_ms >= self._expiry_ms:
            self._forget(now_ms)
        windows = self._windows
        elapsed_ms = now_ms - self._oldest_start
        missing = windows.number - 1 - elapsed_ms // windows.size_ms
        if missing > 0:
            elapsed_ms += missing * windows.size_ms
        return max(elapsed_ms, 1)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long nothing may be done until the rate is the quota again; 0 within the quota."""
        over = self.per_second(now_ms) - quota
        if over <= 0:
            return 0
        if not quota:
            return INT_MAX
        return _whole(over / quota * self.measured_ms(now_ms))

    def _begin_window(self, now_ms: int) -> None:
        self._at = (self._at + 1) % (self._windows.number + 1)
        if self._at == len(self._starts):
            self._starts.append(now_ms)
            self._last.append(now_ms)
            self._values.append(0.0)
        else:
            self._clear(self._at, now_ms)
        self._follow()

    def _forget(self, now_ms: int) -> None:
        """Empty the windows that nothing was recorded in for too long."""
        span_ms = self._windows.span_ms
        for at, last_ms in enumerate(self._last):
            if now_ms - last_ms >= span_ms:
                self._clear(at, now_ms)
        self._follow()

    def _clear(self, at: int, now_ms: int) -> None:
        self._starts[at] = self._last[at] = now_ms
        self._values[at] = 0.0

    def _follow(self) -> None:
        self.total = sum(self._values)
        self._oldest_start = min(self._starts)
        self._expiry_ms = min(self._last) + self._windows.span_ms


class TokenBucket:
    """Credit that grows by the quota up to what all windows together allow; below nothing, it is overdrawn."""

    __slots__ = ("_as_of_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows, quota: float, now_ms: int) -> None:
        self._windows = windows
        self._tokens = self._burst(quota)
        self._as_of_ms = now_ms

    def level(self, quota: float, now_ms: int) -> float:
        """Return what is to be shown of it, the credit."""
        return self.tokens(quota, now_ms)

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return the credit as of now."""
        grown = self._tokens + quota * (now_ms - self._as_of_ms) / 1000
        self._tokens = min(self._burst(quota), grown)
        self._as_of_ms = now_ms
        return self._tokens

    def record(self, amount: float, quota: float, now_ms: int) -> None:
        """Take what was done now off the credit."""
        self._tokens = min(self._burst(quota), self.tokens(quota, now_ms) - amount)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long it takes until nothing is overdrawn any more."""
        tokens = self.tokens(quota, now_ms)
        return _whole(-tokens / quota * 1000) if tokens < 0 else 0

    def _burst(self, quota: float) -> float:
        return self._windows.span_ms / 1000 * quota


def _whole(duration_ms: float) -> int:
    """Round as Java does, halves up, and keep to what a response can name."""
    return int(min(duration_ms + 0.5, INT_MAX))
