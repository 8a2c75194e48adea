"""What appends wait for when the disk is asked to keep up: a flush or a write afterwards, room for more data before.

Both belong to one partition and are made when they are first needed; most partitions never need either. Whoever waits
owns a future, so a waiter that is cancelled takes nothing from the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

NO_BOUND = (1 << 63) - 1


class HeldRecords:
    """Records that are held back until the disk has them: until a flush that settings ask for, or a direct write.

    The high watermark does not pass `bound`, and no append above it is answered. The disk's work is shared: appends
    that come while some of it runs, and ask for more, are let go by the next.
    """

    __slots__ = ("_due_offset", "_failure", "_waiting", "bound")

    def __init__(self) -> None:
        self.bound = NO_BOUND
        self._due_offset = 0  # end of the newest append that asked
        self._failure: Exception | None = None  # why nothing will be let go any more
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # (end offset, told when it is below the bound)

    @property
    def is_holding(self) -> bool:
        """Tell whether records are held back."""
        return self.bound != NO_BOUND

    def hold(self, base_offset: int, end_offset: int) -> None:
        """Hold an append back, and with it all that follow."""
        self.bound = min(self.bound, base_offset)
        self._due_offset = end_offset

    def let_go(self, offset: int) -> None:
        """Let go what the disk has, below `offset`; everything when no append above has asked."""
        if not self.is_holding:
            return
        self.bound = NO_BOUND if self._due_offset <= offset else max(self.bound, offset)
        still_waiting = []
        for end_offset, told in self._waiting:
            if end_offset > self.bound:
                still_waiting.append((end_offset, told))
            elif not told.done():
                told.set_result(None)
        self._waiting = still_waiting

    async def wait(self, end_offset: int) -> None:
        """Wait until everything below `end_offset` is let go. Raises: what `fail` was given."""
        if end_offset > self.bound:
            if self._failure is not None:
                raise self._failure
            told = asyncio.get_running_loop().create_future()
            self._waiting.append((end_offset, told))
            await told

    def fail(self, reason: Exception) -> None:
        """Tell everybody who waits, and who will, that it will not happen."""
        self._failure = reason
        waiting, self._waiting = self._waiting, []
        for _, told in waiting:
            if not told.done():
                told.set_exception(reason)
                told.exception()  # looked at here: the one who waited may be gone, which is worth no log line


class Backlog:
    """Appends that wait until less is on its way to the disk; first come, first served.

    One is admitted at a time and writes before the next is: it may fill the window again.
    """

    __slots__ = ("_is_admitting", "_loop", "_on_empty", "_queue", "is_full")

    def __init__(self, on_empty: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_empty = on_empty
        self._queue: deque[asyncio.Future[None]] = deque()
        self._is_admitting = False  # another one is admitted with the loop's next turn
        self.is_full = True

    def reopen(self) -> None:
        """Admit whoever waits; `on_empty` is called once nobody does any more."""
        self.is_full = False
        if not self._is_admitting:
            self._admit()

    def dismiss(self) -> None:
        """Let everybody go: there is nothing to wait for any more."""
        self.is_full = False
        while self._queue:
            _tell(self._queue.popleft())

    async def wait(self) -> None:
        """Wait for one's turn; the append must follow without another wait in between."""
        turn = self._loop.create_future()
        self._queue.append(turn)
        await turn

    def _admit(self) -> None:
        self._is_admitting = False
        if self.is_full:
            return
        while self._queue and self._queue[0].done():
            self._queue.popleft()  # cancelled
        if not self._queue:
            self._on_empty()
            return
        _tell(self._queue.popleft())
        self._is_admitting = True
        self._loop.call_soon(self._admit)  # after the one just told


def _tell(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
