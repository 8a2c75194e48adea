"""Workers of moves: `num.replica.alter.log.dirs.threads` of them, each with the partitions that hash to it.

A worker copies one partition at a time and stays with it while it can, else takes the first one that is ready in the
order of topics and partitions, so that moves finish one after the other instead of all being slow. It does not wait for
swaps, which run beside it. A move that has failed is left alone for replica.fetch.backoff.ms.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from heapq import heappop, heappush
from zlib import crc32

from broker.background.moves.move import Move
from broker.background.moves.throttle import Throttle
from storage.types import TopicPartition

LONGEST_WAIT_SECONDS = 10.0
"""How often a move that stands still says so."""

logger = logging.getLogger(__name__)


def worker_of(tp: TopicPartition, count: int) -> int:
    """Return the number of the worker that has a partition; the partitions of a topic are spread."""
    return (crc32(tp.topic.encode()) + tp.partition) % count


class MoveWorker:
    """One worker. `advance` takes a move one step further, and ends it when nothing is left to do."""

    def __init__(
        self, throttle: Throttle, monotonic_ns: Callable[[], int], advance: Callable[[Move], Awaitable[None]]
    ) -> None:
        self._throttle = throttle
        self._monotonic_ns = monotonic_ns
        self._advance = advance
        self._wake = asyncio.Event()
        self._is_closing = False
        self._moves: dict[TopicPartition, Move] = {}
        self._current: Move | None = None
        # Heaps of the other ones; what is no longer true of an entry is found out when it is taken.
        self._ready: list[TopicPartition] = []
        self._delayed: list[tuple[int, TopicPartition]] = []  # (when to try it again, which)

    def add(self, move: Move) -> None:
        """Take a move on."""
        self._moves[move.tp] = move
        heappush(self._ready, move.tp)
        self._wake.set()

    def delay(self, move: Move) -> None:
        """Leave a move alone until its time to be tried again."""
        heappush(self._delayed, (move.retry_at_ns, move.tp))
        self._wake.set()

    def remove(self, move: Move) -> None:
        """Forget a move."""
        del self._moves[move.tp]
        self._wake.set()

    def wake(self) -> None:
        """Look again: a limit has changed, or a move was stopped."""
        self._wake.set()

    def close(self) -> None:
        """Let `run` return once the step that runs has ended."""
        self._is_closing = True
        self._wake.set()

    async def run(self) -> None:
        """Work until closed."""
        while not self._is_closing:
            self._wake.clear()
            now_ns = self._monotonic_ns()
            move = self._current = self._next(now_ns)
            wait_seconds = self._wait_seconds(move, now_ns)
            if move is not None and not wait_seconds:
                await self._advance(move)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_seconds == math.inf else wait_seconds):
                    await self._wake.wait()

    def _next(self, now_ns: int) -> Move | None:
        """Choose: the current one while it is ready, else the first that is."""
        move = self._current
        if move is not None and self._moves.get(move.tp) is move and _is_ready(move, now_ns):
            return move
        while self._delayed and self._delayed[0][0] <= now_ns:
            heappush(self._ready, heappop(self._delayed)[1])
        while self._ready:
            move = self._moves.get(heappop(self._ready))
            if move is not None and _is_ready(move, now_ns):
                return move
        return None

    def _wait_seconds(self, move: Move | None, now_ns: int) -> float:
        """Return how long to wait before that one has its turn; without one until the first is to be tried again."""
        if move is None:
            return (self._delayed[0][0] - now_ns) / 1e9 if self._delayed else math.inf
        if move.copy.is_caught_up:
            return 0.0
        move.note_progress(now_ns)
        return min(self._throttle.wait_seconds(now_ns), LONGEST_WAIT_SECONDS)


def _is_ready(move: Move, now_ns: int) -> bool:
    return not move.is_busy and move.retry_at_ns <= now_ns
