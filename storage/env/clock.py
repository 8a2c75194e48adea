"""Time and chance as injected collaborators: Clock and Rng protocols with their system versions."""

from __future__ import annotations

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock for what is stored and compared across restarts, monotonic clock for durations."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Return a clock that never goes back, in nanoseconds."""
        ...


def monotonic_ms(clock: Clock) -> int:
    """Return the monotonic clock in milliseconds, for delays that a wall clock which is set must not move."""
    return clock.monotonic_ns() // 1_000_000


class Rng(Protocol):
    """A stream of chance; the seeded one makes a run repeatable."""

    def int32(self) -> int:
        """Return a uniform signed 32-bit integer."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes for identifiers."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """The monotonic clock in nanoseconds; the function itself, since the broker asks it twice a request."""


class SystemRng:
    """Entropy of the operating system."""

    __slots__ = ()

    def int32(self) -> int:
        """Return a uniform signed 32-bit integer."""
        return int.from_bytes(os.urandom(4), "big", signed=True)

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)


class SeededRng:
    """A repeatable stream."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def int32(self) -> int:
        """Return a uniform signed 32-bit integer."""
        return self._random.getrandbits(32) - (1 << 31)

    def random_bytes(self, count: int) -> bytes:
        """Return `count` bytes of the stream."""
        return self._random.randbytes(count)
