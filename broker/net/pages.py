"""Bringing what is sent into the page cache, and what is sent next: beside the loop, which waits for no disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from storage.env.page_cache import load, will_need
from storage.errors import StorageFailure

COLD_READS = "cold reads"
"""The pool of these threads: a consumer far behind must not keep a flush waiting."""


class Pages(Protocol):
    """What an outbox asks of the page cache."""

    max_ahead_bytes: int
    """How far beyond its own range a read has the kernel prefetch."""

    async def load(self, region: Any, position: int, size: int, ahead_end: int) -> None:
        """Load [position, position + size) of the region's file; let the kernel prefetch up to `ahead_end`, if any.

        Raises: StorageFailure.
        """
        ...

    def read_ahead(self, region: Any, position: int, end: int) -> None:
        """Let the kernel prefetch [position, end) of the region's file, some time soon."""
        ...


class PageLoader:
    """Loads and prefetches in threads."""

    def __init__(
        self, pools: Pools, tasks: TaskOwner, max_ahead_bytes: int, on_failure: Callable[[StorageFailure], None]
    ) -> None:
        self._pools = pools
        self._tasks = tasks
        self.max_ahead_bytes = max_ahead_bytes
        self._on_failure = on_failure

    async def load(self, region: Any, position: int, size: int, ahead_end: int) -> None:
        """Load a range that is to be sent. The caller keeps the region.

        A disk that cannot read it is given up: the answer is half sent, and the client would come again for ever.
        Raises: StorageFailure.
        """

        def run() -> None:
            if ahead_end:
                will_need(region.fd, position, ahead_end)
            load(region.fd, position, size)

        try:
            await self._pools.io(COLD_READS, run)
        except OSError as error:
            failure = StorageFailure(f"cannot read {region.path}: {error}", region.path)
            self._on_failure(failure)
            raise failure from error

    def read_ahead(self, region: Any, position: int, end: int) -> None:
        """Give the hint in a thread; the region may be released meanwhile."""
        self._tasks.spawn("read-ahead", self._hint(region.share(), position, end))

    async def _hint(self, region: Any, position: int, end: int) -> None:
        try:
            await self._pools.io(COLD_READS, partial(will_need, region.fd, position, end))
        finally:
            region.release()
