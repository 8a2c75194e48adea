"""Runs what is queued for a shard and writes it: append, replay, answer, in this order for every batch.

1. append, and wait until the high watermark has passed it: an answer must survive a crash;
2. replay: state is what the log says, so a failed append has changed nothing;
3. answer.

Neighbouring commands that say they combine share a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from broker.coordinator.errors import NotCoordinator, write_error_code
from broker.coordinator.log import CoordinatorLog
from broker.coordinator.operations import InTransaction, Lifecycle, Operation, ShardContext
from broker.coordinator.shard import CoordinatorRecord, Shard
from broker.coordinator.stats import RuntimeStats
from protocol.errors import ErrorCode
from protocol.records.batch import NO_PRODUCER_ID
from protocol.records.builder import build_pairs

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)

RECORD_OVERHEAD_BYTES = 32
"""Upper bound of what a record adds to its key and value: varints, attributes, timestamp delta."""

COMBINED_BATCH_BYTES = 256 * 1024
"""Commands stop sharing a batch here: a larger one would save nothing and delay its first answer."""


class ShardWriter(Generic[S]):
    """Writes for all shards of one coordinator."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        wall_clock_ms: Callable[[], int],
        monotonic_ms: Callable[[], float],
        error_code: Callable[[BaseException], ErrorCode],
        max_batch_bytes: int,
        stats: RuntimeStats,
    ) -> None:
        self._monotonic_ms = monotonic_ms
        self._stats = stats
        self._name = name
        self._log = log
        self._wall_clock_ms = wall_clock_ms
        self._error_code = error_code
        self._max_batch_bytes = max_batch_bytes

    async def drain(self, context: ShardContext[S]) -> None:
        """Run and write everything that is queued; does not suspend while the log takes batches at once."""
        group: list[Operation[S]] = []
        context.is_writing = True
        try:
            while context.queue:
                if context.queue[0].marker is not None:
                    group = [context.queue.popleft()]
                    await self._write_marker(context, group[0])
                elif group := self._next_group(context):
                    await self._write_group(context, group)
        except Exception:  # a background job's border: state may be half changed, so this shard serves nobody any more
            logger.exception("coordinator shard failed coordinator=%s partition=%d", self._name, context.partition)
            context.state = Lifecycle.FAILED
            self._let_go_of_parked(context)
        finally:
            context.is_busy = context.is_writing = False
            for operation in group:
                if not operation.is_over:
                    operation.fail(NotCoordinator())
            context.refuse_queued(NotCoordinator)

    def _let_go_of_parked(self, context: ShardContext[S]) -> None:
        try:
            context.shard.on_unloaded()
        except Exception:  # of the same half-changed state; whoever is parked still gives up by a timeout of its own
            logger.exception(
                "coordinator shard not unloaded coordinator=%s partition=%d", self._name, context.partition
            )

    def _next_group(self, context: ShardContext[S]) -> list[Operation[S]]:
        """Run queued commands until one has records to write, with the combinable ones that follow it."""
        group: list[Operation[S]] = []
        size_bytes = 0
        queue = context.queue
        while queue:
            operation = queue[0]
            if operation.marker is not None or (group and not (operation.is_combinable and group[0].is_combinable)):
                break
            if operation.outcome is None and not operation.run(context.shard):
                queue.popleft()
                continue
            outcome = operation.outcome
            assert outcome is not None
            if operation.is_combinable:
                operation_bytes = size_of(outcome.records)
                if group and size_bytes + operation_bytes > min(COMBINED_BATCH_BYTES, self._max_batch_bytes):
                    break
                size_bytes += operation_bytes
            queue.popleft()
            if operation.queued_ms is not None:
                self._stats.queue_seconds.observe((self._monotonic_ms() - operation.queued_ms) / 1000)
            if outcome.records:
                group.append(operation)
            else:
                operation.conclude(ErrorCode.NONE)
        return group

    async def _write_marker(self, context: ShardContext[S], operation: Operation[S]) -> None:
        marker = operation.marker
        assert marker is not None
        try:
            await self._log.append_marker(context.partition, marker)
        except Exception as failure:  # a background job's border: whoever ends the transaction decides what now
            operation.fail(failure)
            return
        if context.state is Lifecycle.ACTIVE:
            context.shard.replay_end_transaction(marker.producer_id, is_commit=marker.is_commit)
        operation.conclude(ErrorCode.NONE)

    async def _write_group(self, context: ShardContext[S], group: list[Operation[S]]) -> None:
        first = group[0].outcome
        assert first is not None
        records, is_atomic = first.records, first.is_atomic
        if len(group) > 1:
            outcomes = [operation.outcome for operation in group if operation.outcome is not None]
            records = [record for outcome in outcomes for record in outcome.records]
            is_atomic = all(outcome.is_atomic for outcome in outcomes)
        transaction = group[0].transaction
        verification = None if transaction is None else transaction.verification
        producer_id = NO_PRODUCER_ID if transaction is None else transaction.producer_id
        code = ErrorCode.NONE
        started_ms = self._monotonic_ms()
        for chunk in self._chunks(records, is_atomic=is_atomic):
            try:
                batch = self._batch_of(chunk, context.partition, transaction)
                next_offset = await self._log.append(context.partition, batch, verification)
            except Exception as failure:  # a background job's border: the command fails, the shard goes on
                cause = self._error_code(failure)
                code = write_error_code(cause)
                logger.warning(
                    "coordinator append failed coordinator=%s partition=%d error=%s records=%d reason=%s",
                    self._name, context.partition, code.name, len(chunk), failure,
                    exc_info=failure if cause is ErrorCode.UNKNOWN_SERVER_ERROR else None,
                )  # fmt: skip
                break
            if context.state is not Lifecycle.ACTIVE:
                code = ErrorCode.NOT_COORDINATOR
                break
            if first.replays:
                replay = context.shard.replay
                for index, record in enumerate(chunk, start=next_offset - len(chunk)):
                    replay(record, offset=index, producer_id=producer_id)
        self._stats.write_seconds.observe((self._monotonic_ms() - started_ms) / 1000)
        for operation in group:
            operation.conclude(code)

    def _chunks(
        self, records: Sequence[CoordinatorRecord], *, is_atomic: bool
    ) -> Iterator[Sequence[CoordinatorRecord]]:
        if is_atomic or size_of(records) <= self._max_batch_bytes:
            yield records
            return
        chunk: list[CoordinatorRecord] = []
        size_bytes = 0
        for record in records:
            record_bytes = size_of((record,))
            if chunk and size_bytes + record_bytes > self._max_batch_bytes:
                yield chunk
                chunk, size_bytes = [], 0
            chunk.append(record)
            size_bytes += record_bytes
        yield chunk

    def _batch_of(
        self, records: Sequence[CoordinatorRecord], partition: int, transaction: InTransaction | None
    ) -> bytearray:
        timestamp, leader_epoch = self._wall_clock_ms(), self._log.leader_epoch(partition)
        if transaction is None:
            return build_pairs(records, timestamp=timestamp, leader_epoch=leader_epoch)
        return build_pairs(
            records,
            timestamp=timestamp,
            leader_epoch=leader_epoch,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            base_sequence=0,  # as in Kafka: nothing checks the sequences of a coordinator
            is_transactional=True,
        )


def size_of(records: Sequence[CoordinatorRecord]) -> int:
    """Bound the bytes that records take in a batch."""
    return sum([len(record[0]) + len(record[1] or b"") + RECORD_OVERHEAD_BYTES for record in records])
