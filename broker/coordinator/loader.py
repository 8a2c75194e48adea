"""Replays partitions into their shards, in slices, so that the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from broker.coordinator.log import CoordinatorLog
from broker.coordinator.operations import Lifecycle, ShardContext
from broker.coordinator.shard import CoordinatorRecord, Shard
from broker.coordinator.stats import RuntimeStats
from broker.runtime.failures import unexplained
from protocol.records.batch import NO_PRODUCER_ID, parse_header
from protocol.records.control import ControlType
from protocol.records.record import iter_records

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)

LOAD_RECORDS_PER_TURN = 2_000
"""Records replayed before the loop gets its turn while a partition loads: some ten milliseconds."""


class ShardLoader(Generic[S]):
    """Loads the shards of one coordinator."""

    def __init__(self, name: str, log: CoordinatorLog, monotonic_ms: Callable[[], float], stats: RuntimeStats) -> None:
        self._name = name
        self._log = log
        self._monotonic_ms = monotonic_ms
        self._stats = stats

    async def load_all(self, contexts: Sequence[ShardContext[S]]) -> None:
        """Load one after another; one that cannot be read stays out."""
        for context in contexts:
            try:
                await self._load(context)
            except Exception as failure:  # a background job's border: this partition stays out, the others load
                logger.error(
                    "coordinator load failed coordinator=%s partition=%d reason=%s",
                    self._name, context.partition, failure, exc_info=unexplained(failure),
                )  # fmt: skip
                self._stats.failed_loads += 1
                if context.state is not Lifecycle.CLOSED:
                    context.state = Lifecycle.FAILED

    async def _load(self, context: ShardContext[S]) -> None:
        started_ms = self._monotonic_ms()
        replayed = 0
        turn = 0
        async for batch in self._log.scan(context.partition):
            if context.state is not Lifecycle.LOADING:
                return
            count = _replay_batch(context.shard, batch)
            replayed += count
            turn += count
            if turn >= LOAD_RECORDS_PER_TURN:
                turn = 0
                await asyncio.sleep(0)
        if context.state is not Lifecycle.LOADING:
            return
        context.state = Lifecycle.ACTIVE
        context.shard.on_loaded()
        self._stats.load_seconds.observe((self._monotonic_ms() - started_ms) / 1000)
        if replayed:
            logger.info(
                "coordinator loaded coordinator=%s partition=%d records=%d", self._name, context.partition, replayed
            )


def _replay_batch(shard: Shard, batch: memoryview) -> int:
    header = parse_header(batch)
    count = 0
    for record in iter_records(batch):
        count += 1
        if header.is_control:
            marker = record.key
            if header.is_transactional and marker is not None and len(marker) >= 4:
                shard.replay_end_transaction(
                    header.producer_id, is_commit=int.from_bytes(marker[2:4], "big") == ControlType.COMMIT
                )
        elif record.key is not None:
            stored = CoordinatorRecord(bytes(record.key), None if record.value is None else bytes(record.value))
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            shard.replay(stored, offset=record.offset, producer_id=producer_id)
    return count
