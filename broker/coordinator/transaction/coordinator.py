"""The transaction coordinator: routes each transactional id to its shard, and drives what nobody asks for.

That is: the markers of decided transactions, the abort of those past their timeout, and the expiry of idle ids.
Without a topic there are no transactional ids; looking for a coordinator creates it.
Source: TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TypeVar

from broker.coordinator.base import Coordinator
from broker.coordinator.errors import (
    CoordinatorError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from broker.coordinator.internal_topics import TRANSACTION_STATE_TOPIC, InternalTopics
from broker.coordinator.log import CoordinatorLog
from broker.coordinator.producer_ids import ProducerIds
from broker.coordinator.runtime import RunAside, TaskSpawner
from broker.coordinator.shard import Outcome
from broker.coordinator.timers import TimeSource
from broker.coordinator.transaction.errors import (
    ConcurrentTransactions,
    InvalidTransactionalRequest,
    InvalidTransactionTimeout,
    ProducerIdNeeded,
    TransactionalIdNotFound,
)
from broker.coordinator.transaction.listing import Listed, TransactionFilter, matching
from broker.coordinator.transaction.markers import MarkerSender, Pauses
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.state import DECIDED, EPOCH_BUMPING_VERSION, Producer, Transaction
from config.views import TransactionConfig
from protocol.errors import ErrorCode
from storage.types import TopicPartition

logger = logging.getLogger(__name__)

R = TypeVar("R")


class TransactionCoordinator(Coordinator[TransactionShard]):
    """All transactional ids of this broker.

    When it closes, what is decided stays to be carried out after the next start.
    """

    NAME = "transaction-coordinator"
    TOPIC = TRANSACTION_STATE_TOPIC

    def __init__(
        self,
        node_id: int,
        log: CoordinatorLog,
        tasks: TaskSpawner,
        time_source: TimeSource,
        config: TransactionConfig,
        internal_topics: InternalTopics,
        producer_ids: ProducerIds,
        markers: MarkerSender,
        *,
        now_ms: Callable[[], int],
        server_version: Callable[[], int],
        error_code: Callable[[BaseException], ErrorCode],
        run_aside: RunAside,
        max_batch_bytes: int = 1_000_000,
    ) -> None:
        self._log = log
        self._time = time_source
        self._config = config
        self._producer_ids = producer_ids
        self._markers = markers
        self._server_version = server_version
        self._run_aside = run_aside
        super().__init__(
            node_id,
            log,
            tasks,
            time_source,
            internal_topics,
            now_ms=now_ms,
            error_code=error_code,
            max_batch_bytes=max_batch_bytes,
        )
        self._abort_timer = self._timers.timer(self._abort_periodically)
        self._expire_timer = self._timers.timer(self._expire_periodically)
        # Whether the search for transactions past their timeout still runs.
        self._is_aborting = False
        self.completing_count = 0
        self.timed_out_count = 0

    # -- lifecycle --------------------------------------------------------------------------------------------------

    def _start_periodic(self) -> None:
        self._abort_timer.start(self._config.abort_interval_ms)
        self._expire_timer.start(self._config.expire_interval_ms)

    def _new_shard(self, partition: int) -> TransactionShard:
        return TransactionShard(partition, self._now_ms, self._server_version, self._on_decided)

    def _partition_of(self, transactional_id: str) -> int:
        if not transactional_id and not self._is_closed:
            raise InvalidTransactionalRequest
        return self._partition(transactional_id, NotCoordinator)

    # -- producers --------------------------------------------------------------------------------------------------

    async def initialize(self, transactional_id: str, timeout_ms: int, expected: Producer | None) -> Producer:
        """Give an id to a new holder, and fence the one before. Raises: CoordinatorError.

        ConcurrentTransactions while the transaction of the one before is being aborted.
        """
        if not transactional_id:
            raise InvalidTransactionalRequest
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise InvalidTransactionTimeout
        partition = self._partition_of(transactional_id)
        producer = await self._execute_with_id(
            partition, lambda shard, new_id: shard.initialize(transactional_id, expected, timeout_ms, new_id)
        )
        if producer is None:
            raise ConcurrentTransactions
        return producer

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        client_version: int = 0,
    ) -> None:
        """Add partitions to a transaction. Raises: CoordinatorError."""
        await self._runtime.execute(
            self._partition_of(transactional_id),
            lambda shard: shard.add_partitions(transactional_id, producer, partitions, client_version),
            is_combinable=True,
        )

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Tell of each partition whether a producer may write to it in its transaction; with `add`, put it there first.

        Adding is for producers that leave it to the broker, which is part of EPOCH_BUMPING_VERSION.
        """
        producer = Producer(producer_id, producer_epoch)
        try:
            if not add:
                partition = self._partition_of(transactional_id)
                return self._runtime.read(partition).verify(transactional_id, producer, partitions)
            await self.add_partitions(transactional_id, producer, partitions, client_version=EPOCH_BUMPING_VERSION)
        except CoordinatorError as refusal:
            return dict.fromkeys(partitions, self._error_code(refusal))
        return dict.fromkeys(partitions, ErrorCode.NONE)

    def is_ending(self, transactional_id: str) -> bool:
        """Tell whether the outcome of an id's transaction is decided, but not yet in all of its partitions."""
        try:
            found = self._runtime.read(self._partition_of(transactional_id)).transactions.get(transactional_id)
        except CoordinatorError:
            return False
        return found is not None and found.state in DECIDED

    async def end(self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int) -> Producer:
        """Decide a transaction; returns once that is durable, with who may write next. Raises: CoordinatorError."""
        return await self._execute_with_id(
            self._partition_of(transactional_id),
            lambda shard, new_id: shard.end(
                transactional_id,
                producer,
                is_commit=is_commit,
                client_version=client_version,
                new_producer_id=new_id,
            ),
        )

    async def _execute_with_id(
        self, partition: int, command: Callable[[TransactionShard, int | None], Outcome[R]]
    ) -> R:
        """Run a command, and once more with a new producer id in hand if it turns out to need one."""
        try:
            return await self._runtime.execute(partition, lambda shard: command(shard, None), is_combinable=True)
        except ProducerIdNeeded:
            new_id = await self._producer_ids.take()
        return await self._runtime.execute(partition, lambda shard: command(shard, new_id), is_combinable=True)

    # -- markers ----------------------------------------------------------------------------------------------------

    def _on_decided(self, shard: TransactionShard, transactional_id: str) -> None:
        self.completing_count += 1
        self._tasks.spawn("transaction-markers", self._carry_out(shard, transactional_id))

    async def _carry_out(self, shard: TransactionShard, transactional_id: str) -> None:
        """Write the markers of a decided transaction, then that it is complete."""
        try:
            decision = shard.transactions[transactional_id]
            coordinator_epoch = self._log.leader_epoch(shard.partition)
            if await self._markers.send(transactional_id, decision, coordinator_epoch, lambda: shard.is_closed):
                await self._complete(shard, transactional_id)
        finally:
            self.completing_count -= 1

    async def _complete(self, shard: TransactionShard, transactional_id: str) -> None:
        pauses = Pauses(self._time)
        while not shard.is_closed:
            try:
                await self._runtime.execute(
                    shard.partition, lambda shard: shard.complete(transactional_id), is_combinable=True
                )
                return
            except NotCoordinator:
                return  # the next leader of the partition carries on
            except CoordinatorError as failure:
                code = self._error_code(failure)
                logger.warning(
                    "end of a transaction not written, trying again transactional_id=%s error=%s",
                    transactional_id,
                    code.name,
                )
            await pauses.wait()

    # -- periodic ---------------------------------------------------------------------------------------------------

    def _abort_periodically(self) -> None:
        self._abort_timer.start(self._config.abort_interval_ms)
        if not self._is_aborting:
            self._is_aborting = True
            self._tasks.spawn("transaction-timeouts", self._abort_past_timeout())

    async def _abort_past_timeout(self) -> None:
        try:
            for partition in self._runtime.active_partitions():
                for transactional_id in self._runtime.read(partition).past_timeout():
                    await self._abort_one(partition, transactional_id)
                await asyncio.sleep(0)  # a turn of its own for each partition, which may have many ids
        except (NotCoordinator, CoordinatorLoading):
            pass  # the partition has gone meanwhile, and may have come back; the next search takes the others
        finally:
            self._is_aborting = False

    async def _abort_one(self, partition: int, transactional_id: str) -> None:
        try:
            was_aborted = await self._execute_with_id(
                partition, lambda shard, new_id: shard.abort_past_timeout(transactional_id, new_id)
            )
        except NotCoordinator:
            raise
        except CoordinatorError as failure:
            code = self._error_code(failure)
            logger.warning("transaction not timed out transactional_id=%s error=%s", transactional_id, code.name)
            return
        if was_aborted:
            self.timed_out_count += 1
            logger.info("transaction aborted for its timeout transactional_id=%s", transactional_id)

    def _expire_periodically(self) -> None:
        self._expire_timer.start(self._config.expire_interval_ms)
        self._tasks.spawn("expire-transactional-ids", self._submit_everywhere(self._expire_in))

    def _expire_in(self, shard: TransactionShard) -> Outcome[None]:
        expired = shard.expire(self._config.id_expiration_ms)
        if expired.response:
            logger.info("transactional ids expired partition=%d count=%d", shard.partition, expired.response)
        return Outcome(None, expired.records, expired.on_written, replays=False, is_atomic=False)

    # -- operators --------------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction:
        """Give the state of an id. Raises: CoordinatorError."""
        shard = self._runtime.read(self._partition_of(transactional_id))
        found = shard.transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFound
        return found

    async def list(self, wanted: TransactionFilter, id_pattern: str = "") -> list[Listed]:
        """Return the ids that pass a filter and match an expression, if there is one. Raises: CoordinatorError."""
        if self._is_closed:
            raise CoordinatorNotAvailable
        if self._runtime.is_loading:
            raise CoordinatorLoading
        found = [*wanted.select(self._all(), now_ms=self._now_ms())]
        if not id_pattern:
            return found
        matches: list[Listed] = await self._run_aside(partial(matching, id_pattern, found))
        return matches

    def _all(self) -> Iterator[Listed]:
        for partition in self._runtime.active_partitions():
            for transactional_id, transaction in self._runtime.read(partition).transactions.items():
                yield Listed(transactional_id, transaction)

    def count_by_state(self) -> Counter[str]:
        """Count the ids in each state, for metrics."""
        return Counter(one.transaction.state.label for one in self._all())

    @property
    def retrying_count(self) -> int:
        """Markers that have failed and are waiting to be tried again, for metrics."""
        return self._markers.retrying_count
