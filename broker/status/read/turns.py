"""How a look at many things lets the loop go on."""

from __future__ import annotations

import asyncio
from time import perf_counter

TURN_SECONDS = 0.001
ITEMS_PER_LOOK_AT_THE_CLOCK = 32


class Turns:
    """Gives the loop its turn whenever a look has taken a millisecond of it."""

    def __init__(self) -> None:
        self._count = 0
        self._until = perf_counter() + TURN_SECONDS

    async def next(self) -> None:
        """To be awaited between two things."""
        self._count += 1
        if self._count % ITEMS_PER_LOOK_AT_THE_CLOCK == 0:
            await self.rest()

    async def rest(self) -> None:
        """To be awaited between two things that take long each."""
        if perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + TURN_SECONDS
