"""Steps of copies: planned on the loop, carried out beside it, one at a time a copy.

A thread that appends small batches needs the interpreter as much as the loop does. Between two pieces of a step it
sleeps for a moment, so that the loop waits for one piece at most, not until it has asked for its turn long enough.
"""

from __future__ import annotations

import time
from functools import partial

from broker.background.moves.move import Move
from broker.runtime.pools import Pools
from storage.dirs.futures import FutureLog
from storage.log.copying import CopyStep

PAUSE_SECONDS = 0.0001
"""Enough for the loop to wake up and take its turn."""


class CopySteps:
    """Runs the steps of all moves, in threads that flushes and reads of the directories do not need."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    async def run(self, move: Move, max_bytes: int, *, is_flushed: bool = False) -> None:
        """Copy up to max_bytes, but one batch at least; with is_flushed everything is durable afterwards.

        Raises: storage.errors; the copy is then looked at anew.
        """
        step = move.copy.plan(max_bytes, is_flushed=is_flushed)
        future = move.future
        future.begin_step()
        try:
            await self._pools.io(f"{move.destination.path} moves", partial(_carry_out, future, step))
        except BaseException:
            move.copy.failed(step)
            raise
        else:
            move.copy.note(step)
        finally:
            future.end_step()


def _carry_out(future: FutureLog, step: CopyStep) -> None:
    while step.turn():
        time.sleep(PAUSE_SECONDS)
    future.unlink_removed()
