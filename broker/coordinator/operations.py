"""Commands on their way through a shard: who waits for them, and how they end.

A caller that need not wait is answered from the operation itself; a future is made only for one that has to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from broker.coordinator.errors import WriteFailed
from broker.coordinator.shard import Outcome, Shard
from broker.partition.partition import Marker
from protocol.errors import ErrorCode
from storage.producers.verification import Verification

S = TypeVar("S", bound=Shard)


class Lifecycle(Enum):
    """Where a shard is between its partition's arrival and its end."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class InTransaction(NamedTuple):
    """In whose transaction records are written, and the verification that lets it begin here, if it has not yet."""

    producer_id: int
    producer_epoch: int
    verification: Verification | None


class Operation(Generic[S]):
    """A command, or a marker, with whoever waits for it."""

    __slots__ = (
        "_done",
        "command",
        "failure",
        "is_combinable",
        "is_over",
        "marker",
        "outcome",
        "queued_ms",
        "transaction",
    )

    def __init__(
        self,
        command: Callable[[S], Outcome[Any]],
        *,
        is_combinable: bool = False,
        transaction: InTransaction | None = None,
        marker: Marker | None = None,
    ) -> None:
        self.command = command
        self.is_combinable = is_combinable
        self.transaction = transaction
        self.marker = marker
        self.outcome: Outcome[Any] | None = None
        # How it ended: with the outcome's response, or with a failure.
        self.is_over = False
        self.failure: Exception | None = None
        self._done: asyncio.Future[Any] | None = None
        # When it had to queue; None when it was its turn at once.
        self.queued_ms: float | None = None

    def run(self, shard: S) -> bool:
        """Run the command; False when it was refused and its caller has been told."""
        try:
            self.outcome = self.command(shard)
        except Exception as refusal:
            self.fail(refusal)
            return False
        return True

    def conclude(self, code: ErrorCode) -> None:
        """Tell the command how its write ended, then its caller."""
        outcome = self.outcome
        if outcome is not None and outcome.on_written is not None:
            outcome.on_written(code)
        if code is not ErrorCode.NONE:
            self.fail(WriteFailed(code))
            return
        self.is_over = True
        done = self._done
        if done is not None and not done.done():
            done.set_result(None if outcome is None else outcome.response)

    def fail(self, failure: Exception) -> None:
        """Tell the caller that nothing came of it."""
        self.is_over = True
        self.failure = failure
        done = self._done
        if done is not None and not done.done():
            done.set_exception(failure)
            # Looked at once here: whoever waited may be gone with its connection, which is no error worth a log line.
            done.exception()

    def response(self) -> Any:
        """Give the response of one that is over. Raises: what it failed with."""
        if self.failure is not None:
            raise self.failure
        return None if self.outcome is None else self.outcome.response

    def future(self) -> asyncio.Future[Any]:
        """Give what a caller awaits while it is not over."""
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        return self._done


class ShardContext(Generic[S]):
    """One shard and what waits for it."""

    __slots__ = ("alone", "has_combined", "is_busy", "is_writing", "partition", "queue", "shard", "state")

    def __init__(self, partition: int, shard: S) -> None:
        self.partition = partition
        self.shard = shard
        self.state = Lifecycle.LOADING
        self.queue: deque[Operation[S]] = deque()
        # Set while something is queued or being written: whatever comes has to queue behind it.
        self.is_busy = False
        # Set while the queue is being written; it is also busy, but is not, while operations gather.
        self.is_writing = False
        # Set from a combinable write until the end of the loop's turn: others of its kind gather meanwhile.
        self.has_combined = False
        # So many combinable writes to come are not to gather, since lately nobody was there to gather with.
        self.alone = 0

    def refuse_queued(self, make_failure: Callable[[], Exception]) -> None:
        """Send everyone away who is queued."""
        while self.queue:
            self.queue.popleft().fail(make_failure())


def no_records(shard: object) -> Outcome[None]:
    """Do nothing: the command of a marker."""
    return Outcome(None)
