"""Threads for what would make the loop wait: one small I/O pool a log directory, one CPU pool.

Threads receive file descriptors, paths, offsets and bytes and return values; state belongs to the loop thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from broker.runtime.failures import unexplained

logger = logging.getLogger(__name__)

T = TypeVar("T")

IO_THREADS_PER_DIR = 4
"""Enough for a flush, a checkpoint and two cold reads at once; more only queue up in the disk."""

SWITCH_SECONDS = 0.0005
"""How long a thread that computes keeps the interpreter from the loop, which asks for it after every system call."""


def share_interpreter() -> None:
    """Let threads that compute give way to the loop sooner than an interpreter does by itself, which is after 5 ms."""
    sys.setswitchinterval(SWITCH_SECONDS)


class RunBeside(Protocol):
    """Threads of one kind, for what would make the loop wait."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """Run a call in one of them, and give what it returns."""
        ...


class Pools:
    """Runs blocking calls beside the loop; threads are started when first used."""

    def __init__(self) -> None:
        self._io: dict[str, ThreadPoolExecutor] = {}
        self._cpu: ThreadPoolExecutor | None = None

    async def io(self, log_dir: str, call: Callable[[], T]) -> T:
        """Run a call that waits for the disk of `log_dir`.

        A cancelled caller is held until a call that has begun is over: whoever cancels goes on to write the same files.
        """
        pool = self._io.get(log_dir)
        if pool is None:
            pool = self._io[log_dir] = ThreadPoolExecutor(IO_THREADS_PER_DIR, thread_name_prefix="io")
        running = asyncio.get_running_loop().run_in_executor(pool, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(partial(_report_abandoned, log_dir))
            await asyncio.wait((running,))
            raise

    async def together(self, log_dir: str, calls: Sequence[Callable[[], None]]) -> None:
        """Run long calls on one directory beside each other, each in a thread of its own.

        Raises: the first failure, once all have ended.
        """
        if len(calls) == 1:
            return await self.io(log_dir, calls[0])
        if not calls:
            return None
        loop = asyncio.get_running_loop()
        pool = ThreadPoolExecutor(len(calls), thread_name_prefix="recovery")
        try:
            running = (loop.run_in_executor(pool, call) for call in calls)
            outcomes = await asyncio.gather(*running, return_exceptions=True)
        finally:
            pool.shutdown(wait=False)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def cpu(self, call: Callable[[], T]) -> T:
        """Run a long computation that drops the GIL (decompression, compression, CRC)."""
        if self._cpu is None:
            self._cpu = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="cpu")
        return await asyncio.get_running_loop().run_in_executor(self._cpu, call)

    def close(self) -> None:
        """Wait for running calls and end the threads."""
        for pool in self._io.values():
            pool.shutdown(wait=True)
        if self._cpu is not None:
            self._cpu.shutdown(wait=True)


def _report_abandoned(pool: str, ended: asyncio.Future[Any]) -> None:
    """Log the failure of a call whose caller was cancelled: nobody else would look at it."""
    failure = None if ended.cancelled() else ended.exception()
    if failure is not None:
        logger.error("abandoned call failed pool=%s reason=%s", pool, failure, exc_info=unexplained(failure))
