"""Throttle: one limit of bytes a second that several share, kept by pacing, not by counting windows.

Whoever has moved bytes owes the time that they may take; nobody begins while anything is owed. So a single piece may
overshoot, and a limit of 0 lets exactly one piece pass. Pieces are cut to what the limit allows in PIECE_SECONDS, which
makes the flow as smooth as that. What was lost to late wake-ups is made up for, up to CREDIT_SECONDS. Pure arithmetic.
"""

from __future__ import annotations

import math

from config.views import LONG_MAX

PIECE_SECONDS = 0.05
CREDIT_SECONDS = 0.1
MIN_PIECE_BYTES = 4096
"""Smaller pieces would cost more than they carry."""


class Throttle:
    """Times are monotonic nanoseconds."""

    def __init__(self, limit: int = LONG_MAX) -> None:
        self.limit = limit  # bytes a second; replaced by set_limit
        self._owed_bytes = 0.0  # less than 0: credit
        self._as_of_ns = 0

    @property
    def is_unlimited(self) -> bool:
        """Tell whether nobody need ever wait."""
        return self.limit == LONG_MAX

    def set_limit(self, limit: int, now_ns: int) -> None:
        """Let another limit hold from now on, also for what is owed already."""
        self._pay(now_ns)
        self.limit = limit
        self._owed_bytes = 0.0 if self.is_unlimited else max(self._owed_bytes, -limit * CREDIT_SECONDS)

    def piece_bytes(self, max_bytes: int) -> int:
        """Return how many bytes one piece may have, where max_bytes are allowed anyway."""
        if self.is_unlimited:
            return max_bytes
        return max(1, min(max_bytes, max(int(self.limit * PIECE_SECONDS), MIN_PIECE_BYTES)))

    def note(self, size: int, now_ns: int) -> None:
        """Count bytes that were moved."""
        self._pay(now_ns)
        if not self.is_unlimited:
            self._owed_bytes += size

    def wait_seconds(self, now_ns: int) -> float:
        """Return how long the next piece has to wait; 0 when it may begin, infinity under a limit of 0."""
        self._pay(now_ns)
        if self._owed_bytes <= 0:
            return 0.0
        return self._owed_bytes / self.limit if self.limit else math.inf

    def _pay(self, now_ns: int) -> None:
        """Take off what is owed what the time since the last look allowed."""
        seconds = (now_ns - self._as_of_ns) / 1e9
        self._as_of_ns = now_ns
        if not self.is_unlimited:
            self._owed_bytes = max(self._owed_bytes - self.limit * seconds, -self.limit * CREDIT_SECONDS)
