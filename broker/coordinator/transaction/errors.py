"""Why the transaction coordinator refuses a request: one class per protocol error."""

from __future__ import annotations

from broker.coordinator.errors import CoordinatorError


class InvalidTransactionalRequest(CoordinatorError):
    """The request names no transactional id."""


class InvalidTransactionTimeout(CoordinatorError):
    """The transaction timeout is not positive, or longer than the broker allows."""


class InvalidProducerIdMapping(CoordinatorError):
    """The transactional id is unknown, or belongs to another producer id."""


class ProducerFenced(CoordinatorError):
    """Another producer with this transactional id has come since, or the coordinator has ended the transaction."""


class ConcurrentTransactions(CoordinatorError):
    """The state of this transactional id is being changed; asking again a moment later helps."""


class InvalidTxnState(CoordinatorError):
    """The transaction is in no state to be ended like this."""


class TransactionalIdNotFound(CoordinatorError):
    """Nobody has used the transactional id, or its state has expired."""


class ProducerIdNeeded(Exception):
    """The change gives out a new producer id; to be repeated with one in hand."""
