"""The state of one transactional id, and every change it can make: pure functions from state to state.

Which request leads to which change, and which is refused, is decided in `rules`. Producer epochs end at 32766 for
producers: the last one, 32767, is kept for the coordinator to fence with, and whoever would get it gets a new producer
id instead.
Source: TransactionState, TransactionMetadata; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from broker.coordinator.transaction.errors import ProducerFenced, ProducerIdNeeded
from storage.types import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_START = -1

MAX_EPOCH = 32_767
LAST_PRODUCER_EPOCH = MAX_EPOCH - 1
"""The highest epoch a producer works with."""

EPOCH_BUMPING_VERSION = 2
"""The transaction.version from which on the end of every transaction bumps the epoch."""


class TransactionState(IntEnum):
    """Where a transactional id stands; the numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that tools know."""
        return self.name.title().replace("_", "")


STATES_BY_LABEL = {state.label: state for state in TransactionState}

DECIDED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome is durable, and markers are being written."""

IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""No transaction is under way: one may begin, and the id may expire."""


class Producer(NamedTuple):
    """A producer id at an epoch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class Transaction(NamedTuple):
    """What is known of one transactional id."""

    producer_id: int
    timeout_ms: int
    updated_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_START
    previous_producer_id: int = NO_PRODUCER_ID
    """That of the change before, to recognise a request which is repeated after a new id was given out."""
    next_producer_id: int = NO_PRODUCER_ID
    """Takes over once the markers are written, when the epochs of this one are used up."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before, to recognise a repeated request; not stored, so a restart forgets it."""
    client_version: int = 0
    """The transaction.version that the last change was made by."""

    @property
    def is_exhausted(self) -> bool:
        """Tell whether the producer id has no further epoch for a producer."""
        return self.producer_epoch >= LAST_PRODUCER_EPOCH

    @property
    def producer(self) -> Producer:
        """Who may write."""
        return Producer(self.producer_id, self.producer_epoch)

    def is_past_timeout(self, now_ms: int) -> bool:
        """Tell whether the transaction is open for longer than its producer wanted."""
        return self.state is TransactionState.ONGOING and self.started_ms + self.timeout_ms < now_ms


def initialized(
    before: Transaction, *, expected: Producer | None, timeout_ms: int, now_ms: int, new_producer_id: int | None
) -> Transaction:
    """Begin the time of a new holder of the id, between two transactions.

    `expected` is who the producer thinks it is, if it goes on after an error. Raises: ProducerFenced, ProducerIdNeeded.
    """
    last_epoch = NO_PRODUCER_EPOCH
    producer_id, epoch = before.producer
    if expected is not None:
        if epoch not in (NO_PRODUCER_EPOCH, expected.epoch):
            if expected.epoch != before.last_producer_epoch:
                raise ProducerFenced
            # The answer to an earlier request was lost, and nobody has come since.
            return _emptied(before, before.producer, expected.epoch, timeout_ms, now_ms)
        last_epoch = epoch
    if before.is_exhausted:
        if new_producer_id is None:
            raise ProducerIdNeeded
        producer_id, epoch = new_producer_id, NO_PRODUCER_EPOCH
    return _emptied(before, Producer(producer_id, epoch + 1), last_epoch, timeout_ms, now_ms)


def _emptied(before: Transaction, producer: Producer, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
    return before._replace(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=before.producer_id,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        started_ms=NO_START,
    )


def with_partitions(
    before: Transaction, added: Collection[TopicPartition], *, now_ms: int, client_version: int
) -> Transaction:
    """Add partitions; the first ones begin a transaction."""
    return before._replace(
        previous_producer_id=before.producer_id,
        state=TransactionState.ONGOING,
        partitions=before.partitions.union(added),
        started_ms=now_ms if before.state in IDLE else before.started_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def decided(
    before: Transaction, *, is_commit: bool, client_version: int, now_ms: int, new_producer_id: int | None
) -> Transaction:
    """Decide the outcome; from EPOCH_BUMPING_VERSION on this takes the epoch away from the producer.

    Raises: ProducerIdNeeded.
    """
    after = before._replace(
        previous_producer_id=before.producer_id,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        started_ms=now_ms if before.state in IDLE else before.started_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )
    if client_version < EPOCH_BUMPING_VERSION:
        return after
    if before.is_exhausted and new_producer_id is None:
        raise ProducerIdNeeded
    return after._replace(
        producer_epoch=min(before.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=before.producer_epoch,
        next_producer_id=new_producer_id if before.is_exhausted and new_producer_id is not None else NO_PRODUCER_ID,
    )


def fenced(before: Transaction, *, server_version: int, now_ms: int, new_producer_id: int | None) -> Transaction:
    """Abort an open transaction over its producer's head: it cannot go on with the epoch it has.

    Raises: ProducerIdNeeded.
    """
    if server_version < EPOCH_BUMPING_VERSION:
        bumped_epoch = min(before.producer_epoch + 1, MAX_EPOCH)
        before = before._replace(producer_epoch=bumped_epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
        server_version = 0
    return decided(
        before, is_commit=False, client_version=server_version, now_ms=now_ms, new_producer_id=new_producer_id
    )


def completed(before: Transaction, *, now_ms: int) -> Transaction:
    """End a decided transaction, all of whose markers are written."""
    is_commit = before.state is TransactionState.PREPARE_COMMIT
    after = before._replace(
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
    if before.client_version >= EPOCH_BUMPING_VERSION and before.next_producer_id != NO_PRODUCER_ID:
        return after._replace(producer_id=before.next_producer_id, producer_epoch=0)
    return after


def producer_after(decision: Transaction) -> Producer:
    """Give who may write once a decided transaction is complete."""
    return completed(decision, now_ms=decision.updated_ms).producer
