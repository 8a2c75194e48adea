"""Gathered: a job that takes many items at once, run for all that were handed in before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from broker.runtime.tasks import TaskOwner

T = TypeVar("T")
R = TypeVar("R")


class Gathered(Generic[T, R]):
    """Runs a job one at a time; what is handed in while it runs is gathered for the next run.

    The job gives a result, or an exception, for each item in their order; one that it raises is everybody's. A run is
    nobody's own: a caller that is cancelled takes its item back as long as no run has it, and the others get theirs.
    """

    def __init__(self, name: str, job: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._job = job
        self._tasks = TaskOwner(name)
        self._is_running = False
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []

    async def __call__(self, item: T) -> R:
        """Hand an item in and return its result. Raises: its exception."""
        outcome: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, outcome))
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn("run", self._run())
        return await outcome

    async def _run(self) -> None:
        while taken := [(item, outcome) for item, outcome in self._waiting if not outcome.cancelled()]:
            self._waiting = []
            try:
                results = await self._job([item for item, _ in taken])
            except Exception as failure:
                results = [failure] * len(taken)
            for (_, outcome), result in zip(taken, results, strict=True):
                if not outcome.cancelled():
                    _tell(outcome, result)
        self._waiting = []
        self._is_running = False


def _tell(outcome: asyncio.Future[R], result: R | Exception) -> None:
    if isinstance(result, Exception):
        outcome.set_exception(result)
    else:
        outcome.set_result(result)
