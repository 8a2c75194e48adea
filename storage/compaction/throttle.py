"""Keeping a cleaning to a rate: bytes read and written, over all of its files."""

from __future__ import annotations

import math
from collections.abc import Callable

from storage.env.clock import Clock

_CHECK_EVERY_NS = 100_000_000  # as often as a pause may be due


class Throttle:
    """Pauses whoever moved more bytes than the time that went by allows."""

    __slots__ = ("_bytes", "_clock", "_max_bytes_per_second", "_sleep", "_window_start_ns")

    def __init__(self, max_bytes_per_second: float, clock: Clock, sleep: Callable[[float], None]) -> None:
        self._max_bytes_per_second = max_bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._window_start_ns = clock.monotonic_ns()  # moved on after every pause, so that idle time earns no burst
        self._bytes = 0  # since then

    def pass_bytes(self, size: int) -> None:
        """Count bytes and wait if they came too fast."""
        self._bytes += size
        if self._max_bytes_per_second == math.inf:
            return
        elapsed_ns = self._clock.monotonic_ns() - self._window_start_ns
        if elapsed_ns < _CHECK_EVERY_NS and self._bytes < self._max_bytes_per_second:
            return
        ahead = self._bytes / self._max_bytes_per_second - elapsed_ns / 1e9
        if ahead > 0:
            self._sleep(ahead)
        self._window_start_ns = self._clock.monotonic_ns()
        self._bytes = 0
