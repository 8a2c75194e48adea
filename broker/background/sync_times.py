"""How long the disks take to make things durable: every fdatasync and fsync of this process, by log directory."""

from __future__ import annotations

import os.path
import threading
from collections.abc import Callable, Iterable

from broker.metrics.instruments import Histogram
from storage.dirs.manager import normal_path

MAX_DEPTH = 3
"""A directory, a log in it, a file in that: no synced path lies deeper."""


class SyncTimes:
    """Runs syncs, in any thread, and counts how long they take."""

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self.by_dir: dict[str, Histogram] = {}

    def follow(self, directories: Iterable[str]) -> None:
        """Count the syncs in these directories from now on."""
        for directory in map(normal_path, directories):
            self.by_dir.setdefault(directory, Histogram())

    def run(self, sync: Callable[[int], None], fd: int, path: str) -> None:
        """Sync a descriptor of a file or a directory (storage.env.posix.RunSync). Blocking: disk."""
        started_ns = self._monotonic_ns()
        sync(fd)
        seconds = (self._monotonic_ns() - started_ns) / 1e9
        histogram = self._histogram_of(path)
        if histogram is not None:
            with self._lock:
                histogram.observe(seconds)

    def _histogram_of(self, path: str) -> Histogram | None:
        for _ in range(MAX_DEPTH):
            found = self.by_dir.get(path)
            if found is not None:
                return found
            path = os.path.dirname(path)
        return None
