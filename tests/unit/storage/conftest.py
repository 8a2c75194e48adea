"""Fixtures of the storage tests: a real temporary directory, a settable clock, a seeded stream of chance."""

import pytest

from storage.env.clock import SeededRng
from storage.env.posix import PosixFileSystem


class SettableClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now * 1_000_000


@pytest.fixture
def fs() -> PosixFileSystem:
    return PosixFileSystem()


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def rng() -> SeededRng:
    return SeededRng(1)
