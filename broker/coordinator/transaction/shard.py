"""The transactional ids of one partition of `__transaction_state`: replay, and the commands on them.

A command looks at one id, and while its record is being written every other command on that id is refused as
concurrent. So commands of different ids may share a batch. State changes when the write has succeeded; it is kept by
`on_written` instead of `replay`, since the epoch before is in no record.
Source: TransactionStateManager, TransactionCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from broker.coordinator.shard import CoordinatorRecord, Outcome
from broker.coordinator.transaction import rules
from broker.coordinator.transaction.errors import ConcurrentTransactions
from broker.coordinator.transaction.records import parse_key, parse_value, transaction_record, transaction_tombstone
from broker.coordinator.transaction.rules import Moment
from broker.coordinator.transaction.state import DECIDED, Producer, Transaction, completed, producer_after
from protocol.errors import ErrorCode
from storage.types import TopicPartition

logger = logging.getLogger(__name__)

R = TypeVar("R")

OnDecided = Callable[["TransactionShard", str], None]
"""Called once the outcome of an id's transaction is durable: its markers are to be written, then `complete`."""


class TransactionShard:
    """The state machine of one partition."""

    def __init__(
        self, partition: int, now_ms: Callable[[], int], server_version: Callable[[], int], on_decided: OnDecided
    ) -> None:
        self.partition = partition
        self._now_ms = now_ms
        self._server_version = server_version
        self._on_decided = on_decided
        # Written by replay, and by commands once they are in the log.
        self.transactions: dict[str, Transaction] = {}
        # Ids whose records are being written.
        self._writing: set[str] = set()
        self.is_closed = False

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Apply a stored record; one of a kind or version that came later is passed over."""
        transactional_id = parse_key(record.key)
        transaction = None
        if transactional_id is not None:
            if record.value is None:
                self.transactions.pop(transactional_id, None)
                return
            transaction = parse_value(record.value)
        if transactional_id is None or transaction is None:
            logger.warning("passing over a record of a later kind partition=%d offset=%d", self.partition, offset)
        else:
            self.transactions[transactional_id] = transaction

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Do nothing: this topic is written outside of transactions."""

    def on_loaded(self) -> None:
        """Go on with what was decided before the partition came here."""
        for transactional_id in [key for key, one in self.transactions.items() if one.state in DECIDED]:
            logger.info(
                "completing a transaction after load transactional_id=%s state=%s",
                transactional_id,
                self.transactions[transactional_id].state.label,
            )
            self._on_decided(self, transactional_id)

    def on_unloaded(self) -> None:
        """Stop: whoever leads the partition next carries on with what is decided."""
        self.is_closed = True

    # -- reading ----------------------------------------------------------------------------------------------------

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Tell of each partition whether it is in the producer's transaction. Raises: CoordinatorError."""
        return rules.verify_partitions(self.transactions.get(transactional_id), producer, partitions)

    def past_timeout(self) -> list[str]:
        """Give the ids whose transactions are open for too long."""
        now_ms = self._now_ms()
        return [key for key, one in self.transactions.items() if one.is_past_timeout(now_ms)]

    def _is_pending(self, transactional_id: str) -> bool:
        current = self.transactions.get(transactional_id)
        return transactional_id in self._writing or (current is not None and current.state in DECIDED)

    def _moment(self, transactional_id: str, new_producer_id: int | None = None) -> Moment:
        return Moment(self._now_ms(), self._server_version(), self._is_pending(transactional_id), new_producer_id)

    def _agreed(self, client_version: int) -> int:
        """Give the flow of a request: a newer one than the cluster is at would leave in the log what it cannot hold."""
        return client_version if self._server_version() >= client_version else 0

    # -- commands ---------------------------------------------------------------------------------------------------

    def initialize(
        self, transactional_id: str, expected: Producer | None, timeout_ms: int, new_producer_id: int | None
    ) -> Outcome[Producer | None]:
        """Give the id to a new holder; None when an open transaction had to be aborted first and is being ended.

        Raises: CoordinatorError, ProducerIdNeeded.
        """
        moment = self._moment(transactional_id, new_producer_id)
        after = rules.initialize(self.transactions.get(transactional_id), expected, timeout_ms, moment)
        return self._change(transactional_id, after, None if after.state in DECIDED else after.producer)

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], client_version: int
    ) -> Outcome[None]:
        """Add partitions to the transaction of an id. Raises: CoordinatorError."""
        before = self.transactions.get(transactional_id)
        version = self._agreed(client_version)
        after = rules.add_partitions(before, producer, partitions, version, self._moment(transactional_id))
        return Outcome(None) if after is None else self._change(transactional_id, after, None)

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        is_commit: bool,
        client_version: int,
        new_producer_id: int | None,
    ) -> Outcome[Producer]:
        """Decide the transaction of an id; answered with who may write next.

        Raises: CoordinatorError, ProducerIdNeeded.
        """
        before = self.transactions.get(transactional_id)
        moment = self._moment(transactional_id, new_producer_id)
        version = self._agreed(client_version)
        after = rules.end(before, producer, is_commit=is_commit, client_version=version, moment=moment)
        if after is None:
            assert before is not None
            return Outcome(before.producer)
        return self._change(transactional_id, after, producer_after(after))

    def abort_past_timeout(self, transactional_id: str, new_producer_id: int | None) -> Outcome[bool]:
        """Abort an id's transaction if it is still open for too long; tells whether. Raises: ProducerIdNeeded."""
        before = self.transactions.get(transactional_id)
        moment = self._moment(transactional_id, new_producer_id)
        if before is None or moment.is_pending or not before.is_past_timeout(moment.now_ms):
            return Outcome(False)
        return self._change(transactional_id, rules.fence(before, moment), True)

    def complete(self, transactional_id: str) -> Outcome[None]:
        """End an id's decided transaction: all its markers are written."""
        before = self.transactions.get(transactional_id)
        if before is None or before.state not in DECIDED:
            return Outcome(None)
        if transactional_id in self._writing:
            raise ConcurrentTransactions
        return self._change(transactional_id, completed(before, now_ms=self._now_ms()), None)

    def expire(self, expiration_ms: int) -> Outcome[int]:
        """Forget the ids that did nothing for long; answered with how many."""
        now_ms = self._now_ms()
        expired = [
            key
            for key, one in self.transactions.items()
            if key not in self._writing and rules.is_expired(one, now_ms=now_ms, expiration_ms=expiration_ms)
        ]
        self._writing.update(expired)
        return Outcome(
            len(expired),
            [transaction_tombstone(key) for key in expired],
            on_written=lambda code: self._on_forgotten(expired, code),
            replays=False,
            is_atomic=False,
        )

    def _on_forgotten(self, transactional_ids: Iterable[str], code: ErrorCode) -> None:
        self._writing.difference_update(transactional_ids)
        if code is ErrorCode.NONE:
            for transactional_id in transactional_ids:
                del self.transactions[transactional_id]

    def _change(self, transactional_id: str, after: Transaction, response: R) -> Outcome[R]:
        self._writing.add(transactional_id)
        record = transaction_record(transactional_id, after, server_version=self._server_version())
        return Outcome(
            response,
            (record,),
            on_written=lambda code: self._on_changed(transactional_id, after, code),
            replays=False,
        )

    def _on_changed(self, transactional_id: str, after: Transaction, code: ErrorCode) -> None:
        self._writing.discard(transactional_id)
        if code is not ErrorCode.NONE:
            return
        self.transactions[transactional_id] = after
        if after.state in DECIDED and not self.is_closed:
            self._on_decided(self, transactional_id)
