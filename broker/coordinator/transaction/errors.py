"""Why the transaction coordinator refuses a request: one class per protocol error."""

from __future__ import annotations

from broker.coordinator.errors import CoordinatorError
from protocol.errors import ErrorCode


class InvalidTransactionalRequest(CoordinatorError):
    """The request names no transactional id."""

    code = ErrorCode.INVALID_REQUEST


class InvalidTransactionTimeout(CoordinatorError):
    """The transaction timeout is not positive, or longer than the broker allows."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class InvalidProducerIdMapping(CoordinatorError):
    """The transactional id is unknown, or belongs to another producer id."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class ProducerFenced(CoordinatorError):
    """Another producer with this transactional id has come since, or the coordinator has ended the transaction."""

    code = ErrorCode.PRODUCER_FENCED


class ConcurrentTransactions(CoordinatorError):
    """The state of this transactional id is being changed; asking again a moment later helps."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class InvalidTxnState(CoordinatorError):
    """The transaction is in no state to be ended like this."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionalIdNotFound(CoordinatorError):
    """Nobody has used the transactional id, or its state has expired."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class ProducerIdNeeded(Exception):
    """The change gives out a new producer id; to be repeated with one in hand."""
