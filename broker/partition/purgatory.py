"""Where requests wait for partitions: parked long polls, woken by appends, deletions and log start moves.

A waiter registers with every partition it depends on and awaits one future. Waking only marks which partitions have
changed and lets the request look again on its own turn, so many appends of one loop turn cost one look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any


class Waiter:
    """One parked request."""

    __slots__ = ("_future", "changed")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self.changed: set[Any] = set()  # what has woken us since the last look

    def wake(self, source: Hashable) -> None:
        """Note that `source` has changed and let the request go on."""
        self.changed.add(source)
        future = self._future
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, loop: asyncio.AbstractEventLoop, deadline: float) -> bool:
        """Wait until woken; False when `deadline` (loop time, seconds) has passed instead."""
        if self.changed:
            return True
        future = self._future = loop.create_future()
        timer = loop.call_at(deadline, _expire, future)
        try:
            await future
        finally:
            timer.cancel()
            self._future = None
        return bool(self.changed)


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
