"""Timers and periodic jobs on the loop.

Loop time is monotonic, so a wall clock that is set back moves no timer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from broker.runtime.failures import unexplained
from broker.runtime.tasks import TaskOwner

logger = logging.getLogger(__name__)


class Scheduler:
    """Calls functions later, or again and again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs = TaskOwner("scheduler")

    def now_ms(self) -> float:
        """Give the loop's monotonic time in milliseconds."""
        return self._loop.time() * 1000

    def call_later(self, delay_ms: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call `callback` once, `delay_ms` from now; cancel through the handle."""
        return self._loop.call_later(max(0.0, delay_ms) / 1000, callback, *args)

    def every(
        self,
        name: str,
        interval_ms: int,
        job: Callable[[], Awaitable[None] | None],
        *,
        first_delay_ms: int | None = None,
    ) -> None:
        """Run `job` periodically, never twice at once; a failed run is logged and the next one still comes."""
        self._jobs.spawn(name, self._repeat(name, interval_ms, job, first_delay_ms))

    async def _repeat(
        self, name: str, interval_ms: int, job: Callable[[], Awaitable[None] | None], first_delay_ms: int | None
    ) -> None:
        await asyncio.sleep((interval_ms if first_delay_ms is None else first_delay_ms) / 1000)
        while True:
            try:
                outcome = job()
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as failure:
                logger.error("background job failed job=%s reason=%s", name, failure, exc_info=unexplained(failure))
            await asyncio.sleep(max(1, interval_ms) / 1000)

    async def close(self) -> None:
        """Stop every periodic job and wait for the one that runs."""
        await self._jobs.close()
