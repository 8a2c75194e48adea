"""Gathered: a job that takes many items at once, run for all that were handed in before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Gathered(Generic[T, R]):
    """Runs a job one at a time; what is handed in while it runs is gathered for the next run.

    The job gives a result, or an exception, for each item in their order; one that it raises is everybody's.
    """

    def __init__(self, job: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._job = job
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []

    async def __call__(self, item: T) -> R:
        """Hand an item in and return its result. Raises: its exception."""
        outcome: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, outcome))
        async with self._turn:
            if not outcome.done():
                taken, self._waiting = self._waiting, []
                await self._run(taken)
        return await outcome

    async def _run(self, taken: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        results: Sequence[R | Exception]
        try:
            results = await self._job([item for item, _ in taken])
        except asyncio.CancelledError:
            for _, outcome in taken:
                outcome.cancel()
            raise
        except Exception as failure:
            results = [failure] * len(taken)
        for (_, outcome), result in zip(taken, results, strict=True):
            if outcome.cancelled():
                continue
            if isinstance(result, Exception):
                outcome.set_exception(result)
            else:
                outcome.set_result(result)
