"""Owned tasks: the only place where tasks are born.

Every task has a name and an owner that outlives it. A task that fails is logged by its owner, never lost; an owner
that closes cancels what still runs and waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final

from broker.runtime.failures import unexplained

logger: Final = logging.getLogger(__name__)


class TaskOwner:
    """Owns tasks from birth to end."""

    def __init__(self, name: str, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self.name = name
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start `work` as a task of this owner."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            self._report(task.get_name(), failure)

    def report(self, name: str, failure: BaseException) -> None:
        """Treat a failure that happened outside of any task as if a task of this name had ended with it."""
        self._report(f"{self.name}/{name}", failure)

    def _report(self, full_name: str, failure: BaseException) -> None:
        logger.error("task failed name=%s reason=%s", full_name, failure, exc_info=unexplained(failure))
        if self._on_failure is not None:
            self._on_failure(failure)

    async def join(self, name: str | None = None) -> bool:
        """Wait until every task, or each of that name, has ended by itself, those that start meanwhile included.

        Tells whether there were any.
        """
        had_any = False
        while waited_for := [task for task in self._tasks if name is None or task.get_name() == f"{self.name}/{name}"]:
            had_any = True
            await asyncio.wait(waited_for)
        return had_any

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def start_inline(work: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
    """Run a coroutine up to its first suspension, without a task.

    Shape: (True, result) when it ended, (False, a coroutine that carries it on, for a task) when it waits. The code up
    to the first suspension must not ask for the current task: there is none.
    """
    try:
        awaited = work.send(None)
    except StopIteration as ended:
        return True, ended.value
    return False, _carry_on(work, awaited)


async def _carry_on(work: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    return await _resume(work, awaited)


@coroutine
def _resume(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    """Give the task the future `work` already waits for, then whatever it waits for next."""
    while True:
        try:
            try:
                value = yield awaited
            except BaseException as failure:
                awaited = work.throw(failure)
            else:
                awaited = work.send(value)
        except StopIteration as ended:
            return ended.value
