"""How a look at many things lets the loop go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TURN_NS = 1_000_000
"""So long a look keeps the loop at a time."""
ITEMS_PER_LOOK_AT_THE_CLOCK = 32


class Turns:
    """Gives the loop its turn whenever a look has taken a millisecond of it."""

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self._count = 0
        self._until_ns = monotonic_ns() + TURN_NS

    async def next(self) -> None:
        """To be awaited between two things."""
        self._count += 1
        if self._count % ITEMS_PER_LOOK_AT_THE_CLOCK == 0:
            await self.rest()

    async def rest(self) -> None:
        """To be awaited between two things that take long each, or many that take no time."""
        if self._monotonic_ns() >= self._until_ns:
            await asyncio.sleep(0)
            self._until_ns = self._monotonic_ns() + TURN_NS
