"""Group commit: one job that many ask for, run once for all who asked before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Coalesced:
    """Runs a job one at a time. A run that has begun may have missed what its caller changed, so that one gets a new
    run, together with everybody else who asks meanwhile."""

    def __init__(self, job: Callable[[], Awaitable[None]]) -> None:
        self._job = job
        self._turn = asyncio.Lock()
        self._begun = 0  # runs so far
        self._done = 0  # number of the last run that ended well

    async def __call__(self) -> None:
        """Return when a run that began after this call has ended. Raises: what the job raises."""
        wanted = self._begun + 1
        async with self._turn:
            if self._done >= wanted:
                return
            self._begun += 1
            number = self._begun
            await self._job()
            self._done = number
