"""Which request leads to which change of a transactional id, in each state; all that is refused is refused here.

Every function takes the state, or None for an id nobody has used, and returns the state to write, or None when there is
nothing to write and the answer is yes. A change is pending from its request until it is in the log, and from the
decision on an outcome until the last marker is written; whoever comes meanwhile asks again. The order of the checks is
Kafka's: clients can tell it from the error that wins.
Source: TransactionCoordinator; KIP-890 for the end of a transaction from version 5 of EndTxn on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from broker.coordinator.transaction.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    ProducerIdNeeded,
)
from broker.coordinator.transaction.state import (
    DECIDED,
    EPOCH_BUMPING_VERSION,
    IDLE,
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    Producer,
    Transaction,
    TransactionState,
    decided,
    fenced,
    initialized,
    with_partitions,
)
from protocol.errors import ErrorCode
from storage.types import TopicPartition


class Moment(NamedTuple):
    """What the surroundings of a request add to it."""

    now_ms: int
    server_version: int
    """The finalized transaction.version."""
    is_pending: bool = False
    new_producer_id: int | None = None


def initialize(before: Transaction | None, expected: Producer | None, timeout_ms: int, moment: Moment) -> Transaction:
    """Give the id to a new holder, or abort the transaction that is in its way: then the state is a decision.

    Raises: ConcurrentTransactions, ProducerFenced, ProducerIdNeeded.
    """
    if moment.is_pending:
        raise ConcurrentTransactions
    if before is None:
        if moment.new_producer_id is None:
            raise ProducerIdNeeded
        before = Transaction(moment.new_producer_id, timeout_ms, moment.now_ms)
    if expected is not None and not _may_be(before, expected):
        raise ProducerFenced
    if before.state is TransactionState.ONGOING:
        return fence(before, moment)
    return initialized(
        before,
        expected=expected,
        timeout_ms=timeout_ms,
        now_ms=moment.now_ms,
        new_producer_id=moment.new_producer_id,
    )


def _may_be(before: Transaction, expected: Producer) -> bool:
    """Tell whether a producer that goes on may hold the id; its epoch is looked at later."""
    return (
        before.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == before.producer_id
        or (expected.producer_id == before.previous_producer_id and expected.epoch >= LAST_PRODUCER_EPOCH)
    )


def add_partitions(
    before: Transaction | None,
    producer: Producer,
    partitions: Collection[TopicPartition],
    client_version: int,
    moment: Moment,
) -> Transaction | None:
    """Add partitions to the transaction, which begins with the first one.

    Raises: ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced.
    """
    if moment.is_pending:
        # Before all else: once the change is through, the producer may be right about an id that only it has so far.
        raise ConcurrentTransactions
    current = _of_producer(before, producer)
    if current.state is TransactionState.ONGOING and current.partitions.issuperset(partitions):
        return None
    return with_partitions(current, partitions, now_ms=moment.now_ms, client_version=client_version)


def verify_partitions(
    before: Transaction | None, producer: Producer, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Tell of each partition whether it is in the producer's transaction.

    Raises: ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced.
    """
    current = _of_producer(before, producer)
    if current.state in DECIDED:
        raise ConcurrentTransactions
    return {tp: ErrorCode.NONE if tp in current.partitions else ErrorCode.TRANSACTION_ABORTABLE for tp in partitions}


def _of_producer(before: Transaction | None, producer: Producer) -> Transaction:
    if before is None or before.producer_id != producer.producer_id:
        raise InvalidProducerIdMapping
    if before.producer_epoch != producer.epoch:
        raise ProducerFenced
    return before


def end(
    before: Transaction | None, producer: Producer, *, is_commit: bool, client_version: int, moment: Moment
) -> Transaction | None:
    """Decide the transaction as its producer wants it.

    Raises: ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced, ProducerIdNeeded.
    """
    if before is None:
        raise InvalidProducerIdMapping
    if client_version >= EPOCH_BUMPING_VERSION:
        is_done = _ends_with_bump(before, producer, is_commit=is_commit, is_pending=moment.is_pending)
    else:
        is_done = _ends_without_bump(before, producer, is_commit=is_commit, is_pending=moment.is_pending)
    if is_done:
        return None
    return decided(
        before,
        is_commit=is_commit,
        client_version=client_version,
        now_ms=moment.now_ms,
        new_producer_id=moment.new_producer_id,
    )


def _ends_without_bump(before: Transaction, producer: Producer, *, is_commit: bool, is_pending: bool) -> bool:
    """Tell whether the end was carried out already; the epoch stays the same, so a repetition looks like the first."""
    _of_producer(before, producer)
    if is_pending:
        raise ConcurrentTransactions
    if before.state is TransactionState.ONGOING:
        return False
    if before.state is not _complete_state(is_commit):
        raise InvalidTxnState
    return True


def _ends_with_bump(before: Transaction, producer: Producer, *, is_commit: bool, is_pending: bool) -> bool:
    """Tell whether the end was carried out already: a repetition has the epoch before the current one.

    With the current epoch an end of a transaction without partitions is asked for, which can only be an abort.
    """
    if is_pending:
        raise ConcurrentTransactions
    is_repeated_over = (
        before.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_PRODUCER_EPOCH
        and before.producer_epoch == 0
    )
    is_repeated = before.producer_epoch == producer.epoch + 1 or is_repeated_over
    if before.producer_id != producer.producer_id and not is_repeated_over:
        raise InvalidProducerIdMapping
    has_ended_one = before.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if before.producer_epoch != producer.epoch and not (has_ended_one and is_repeated):
        raise ProducerFenced
    if before.state is TransactionState.ONGOING:
        return False
    if not is_repeated:
        if is_commit:
            raise InvalidTxnState
        return False
    if before.state is not _complete_state(is_commit):
        raise InvalidTxnState
    return True


def _complete_state(is_commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT


def fence(before: Transaction, moment: Moment) -> Transaction:
    """Abort an open transaction in the coordinator's own name. Raises: ProducerIdNeeded."""
    return fenced(
        before,
        server_version=moment.server_version,
        now_ms=moment.now_ms,
        new_producer_id=moment.new_producer_id,
    )


def is_expired(transaction: Transaction, *, now_ms: int, expiration_ms: int) -> bool:
    """Tell whether an id that does nothing is to be forgotten."""
    return transaction.state in IDLE and transaction.updated_ms <= now_ms - expiration_ms
