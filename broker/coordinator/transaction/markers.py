"""Writes the markers of decided transactions, partition by partition, until every one of them is in the log.

A decision is never taken back, so a marker is tried again for as long as its partition exists and its coordinator
leads: with a pause that doubles up to a bound, since a partition may be offline for hours.
Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from broker.coordinator.timers import TimeSource
from broker.coordinator.transaction.state import Transaction, TransactionState
from protocol.errors import ErrorCode
from storage.types import TopicPartition

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 5_000


class WriteMarker(Protocol):
    """The partition's side: appends one marker as the leader and waits until it is durable."""

    async def __call__(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """Write the marker. Raises: broker.partition.errors, storage.errors."""


class Pauses:
    """Waits that double from one to the next."""

    def __init__(self, time_source: TimeSource) -> None:
        self._time = time_source
        self._next_ms = FIRST_PAUSE_MS

    async def wait(self) -> None:
        """Wait for the current pause."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = self._time.call_later(self._next_ms, lambda: None if over.done() else over.set_result(None))
        self._next_ms = min(2 * self._next_ms, LONGEST_PAUSE_MS)
        try:
            await over
        finally:
            call.cancel()


class MarkerSender:
    """Writes the markers of one transaction after another."""

    def __init__(
        self,
        write: WriteMarker,
        exists: Callable[[TopicPartition], bool],
        error_code: Callable[[BaseException], ErrorCode],
        time_source: TimeSource,
    ) -> None:
        self._write = write
        self._exists = exists
        self._error_code = error_code
        self._time = time_source
        # Markers that have failed and are waiting to be tried again.
        self.retrying_count = 0

    async def send(
        self,
        transactional_id: str,
        decision: Transaction,
        coordinator_epoch: int,
        is_given_up: Callable[[], bool],
    ) -> bool:
        """Write a decision to all partitions of its transaction; False when it was given up."""
        partitions = sorted(decision.partitions)
        if len(partitions) == 1:
            return await self._write_one(partitions[0], transactional_id, decision, coordinator_epoch, is_given_up)
        written = await asyncio.gather(
            *(self._write_one(tp, transactional_id, decision, coordinator_epoch, is_given_up) for tp in partitions)
        )
        return all(written)

    async def _write_one(
        self,
        tp: TopicPartition,
        transactional_id: str,
        decision: Transaction,
        coordinator_epoch: int,
        is_given_up: Callable[[], bool],
    ) -> bool:
        pauses = Pauses(self._time)
        while not is_given_up():
            if not self._exists(tp):
                return True  # deleted, and what the producer wrote with it
            try:
                await self._write(
                    tp,
                    decision.producer_id,
                    decision.producer_epoch,
                    is_commit=decision.state is TransactionState.PREPARE_COMMIT,
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=decision.client_version,
                )
                return True
            except Exception as failure:  # a background job's border: the marker is tried again
                code = self._error_code(failure)
                if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                    # The partition has seen this epoch end, or a later one: the marker stood there before a restart.
                    return True
                unexpected = failure if code is ErrorCode.UNKNOWN_SERVER_ERROR else None
                logger.warning(
                    "transaction marker not written, trying again transactional_id=%s partition=%s error=%s",
                    transactional_id, tp, code.name, exc_info=unexpected,
                )  # fmt: skip
            self.retrying_count += 1
            try:
                await pauses.wait()
            finally:
                self.retrying_count -= 1
        return False
