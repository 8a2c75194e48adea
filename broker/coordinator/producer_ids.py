"""Hands out producer ids, from blocks of which only the end is logged: no id is given out twice, whatever happens.

Source: ProducerIdManager, KIP-730.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.coordinator.errors import CoordinatorNotAvailable
from broker.metadata.controller.producer_ids import ProducerIdBlock
from broker.metadata.errors import ControllerClosed


class ProducerIds:
    """The ids of this broker, for producers with and without transactions."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        # The rest of the current block: next id to give, and the first one beyond. Moved by take alone.
        self._next = 0
        self._end = 0
        # Set while a block is on its way; whoever needs an id meanwhile waits for it.
        self._refill: asyncio.Event | None = None

    async def take(self) -> int:
        """Give an id that nobody ever had. Raises: CoordinatorNotAvailable."""
        while self._next >= self._end:
            if self._refill is not None:
                await self._refill.wait()
            else:
                await self._fetch_block()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _fetch_block(self) -> None:
        refill = self._refill = asyncio.Event()
        try:
            block = await self._allocate()
            self._next, self._end = block.first, block.first + block.size
        except ControllerClosed:
            raise CoordinatorNotAvailable from None
        finally:
            # Whoever waited looks again, and fetches a block itself when this attempt failed.
            self._refill = None
            refill.set()
