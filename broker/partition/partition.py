"""One partition hosted here: leadership, append, read. The data door into a log.

Invariant: log start ≤ last stable offset ≤ high watermark ≤ log end. While the in-sync set has one member, this broker,
the high watermark follows the log end as soon as an append has returned (broker.partition.isr decides). Where settings
ask for a flush after so many records, it stays below an append that made one due until that flush has ended. A log that
is written past the page cache (preallocate=true) takes appends into memory; it stays below them until they are written.

An append never waits inside. Whoever answers for one asks `is_immediate` first: if it is not, `room` is awaited before
the append and `durable` after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from broker.metrics.instruments import TopicStats
from broker.partition.errors import (
    FencedLeaderEpoch,
    NotLeader,
    RecordsMustStay,
    UnknownLeaderEpoch,
)
from broker.partition.isr import ensure_enough, high_watermark
from broker.partition.purgatory import Wakeable
from broker.partition.waits import Backlog, HeldRecords
from broker.partition.work import Deliveries, DiskWork
from config.views import LONG_MAX, LogConfig
from protocol.records.control import build_marker
from storage.env.fs import Buffer
from storage.errors import OffsetOutOfRange, StorageFailure
from storage.log.append import AppendResult
from storage.log.delivery import Delivery, StepBudget
from storage.log.partition_log import PartitionLog
from storage.log.validator import LATEST_REQUEST_VERSION, ValidatedBatch, may_compress, validate
from storage.types import AppendOrigin, TopicPartition

logger: Final = logging.getLogger(__name__)

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ACKS_ALL: Final = -1
HIGH_WATERMARK: Final = -1  # the offset that asks to delete everything that is replicated
_CROWDED: Final = "crowded"  # why the gate is closed
_NOTHING: frozenset[str] = frozenset()  # one for all partitions: an empty set has 200 bytes, too
_HELD: Final = "held"
MAX_UNWRITTEN_BYTES = 16 * 1024 * 1024
"""Appends wait above this, as with two full windows of write-back: what a direct write has not taken is memory."""


class Marker(NamedTuple):
    """What is decided about the transaction of one producer."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class Partition:
    """A partition this broker has a replica of."""

    __slots__ = (
        "_backlog",
        "_closed_for",
        "_deliveries",
        "_disk_work",
        "_due_flush",
        "_follows_end",
        "_is_alone",
        "_node_id",
        "_now_ms",
        "_on_failure",
        "_planned_offset",
        "_unwritten",
        "is_deleted",
        "is_immediate",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "may_compress",
        "replica_count",
        "stats",
        "tp",
        "waiters",
    )

    def __init__(
        self,
        tp: TopicPartition,
        log: PartitionLog,
        node_id: int,
        now_ms: Callable[[], int],
        on_failure: Callable[[StorageFailure], None],
        disk_work: DiskWork,
        deliveries: Deliveries,
        stats: TopicStats,
    ) -> None:
        self.tp = tp
        self.stats = stats  # of the topic, shared by its partitions
        self.log = log
        self._node_id = node_id
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._disk_work = disk_work
        self._deliveries = deliveries
        self.leader_id = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.replica_count = 1
        self._is_alone = False  # we lead and nobody else is in sync: the high watermark is the log end
        self.is_deleted = False
        self.is_immediate = True  # an append need wait neither before nor after
        self.may_compress = False  # an append may have to compress what comes otherwise
        self._follows_end = False  # alone, no flushes, no schedule: an append has nothing else to do
        self._due_flush: HeldRecords | None = None  # since the first flush that an append made due
        self._planned_offset = 0  # below it all is durable, or will be when the flush that runs has ended
        self._unwritten: HeldRecords | None = None  # since the first append that went into memory
        self._backlog: Backlog | None = None  # while appends have to wait
        self._closed_for = _NOTHING  # why they have to, once more than the backlog is let in
        self.waiters: set[Wakeable] = set()
        self._take_charge()

    def __repr__(self) -> str:
        return f"Partition({self.tp}, leader={self.leader_id}, epoch={self.leader_epoch}, log={self.log!r})"

    @property
    def is_leader(self) -> bool:
        """Tell whether this broker leads the partition."""
        return self.leader_id == self._node_id

    @property
    def delivery(self) -> Delivery | None:
        """What is released here; None unless the topic is scheduled and this broker leads the partition."""
        return self.log.delivery if self.is_leader and not self.is_deleted and not self.log.is_closed else None

    @property
    def topic_id(self) -> bytes:
        """The topic's id, 16 bytes."""
        return self.log.topic_id or bytes(16)

    def follow(self, leader_id: int, leader_epoch: int, isr: tuple[int, ...], replica_count: int) -> None:
        """Take over leadership as the metadata says; a new epoch of our own begins at the log end."""
        if leader_epoch > self.leader_epoch and leader_id == self._node_id:
            self.log.assign_epoch(leader_epoch)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr = isr
        self.replica_count = replica_count
        self._is_alone = leader_id == self._node_id and isr == (leader_id,)
        self._settle()
        self._advance()
        self._deliveries.follow(self)

    def _take_charge(self) -> None:
        """Arrange with a new log who does the disk's work for it."""
        self.log.transactions.require_verification()
        self.log.direct_writes.defer()
        self.log.durability.watch(on_rolled=self._on_rolled, on_window_full=self._on_window_full)
        self._settle()
        self._disk_work.flush_in_time(self)

    def serve(self, log: PartitionLog) -> None:
        """Serve another log with the same records, all of which are durable in it, from now on.

        Appends are on hold, and nothing that was appended before waits for the disk any more.
        """
        before, self.log = self.log, log
        assert self.is_on_hold and log.log_end_offset == before.log_end_offset, (before, log)
        log.config = before.config
        log.transactions.take_over(before.transactions)
        log.advance_high_watermark(before.high_watermark)
        log.increment_log_start_offset(before.log_start_offset)
        log.take_over_delivery(before)
        if self.is_leader:
            log.assign_epoch(self.leader_epoch)
        self._unwritten = self._due_flush = None
        self._planned_offset = 0
        self._take_charge()
        self._advance()
        self._deliveries.follow(self)
        self.wake()

    def reconfigure(self, config: LogConfig) -> None:
        """Let other settings hold from the next append on; another delivery.mode shows and hides records at once."""
        was_scheduled = self.log.delivery is not None
        self.log.config = config
        self._settle()
        self._disk_work.flush_in_time(self)
        self._deliveries.follow(self)
        if was_scheduled:
            self.wake()

    def _settle(self) -> None:
        """Derive from settings and state what the way of an append looks at."""
        config = self.log.config
        is_flushed_by_count = config.flush_on_append or config.flush_messages < LONG_MAX
        is_holding = self._due_flush is not None and self._due_flush.is_holding
        is_written_later = config.preallocate or self.log.direct_writes.has_unwritten
        is_free = not is_flushed_by_count and not is_holding and not is_written_later
        self.is_immediate = is_free and self._backlog is None
        self.may_compress = may_compress(config)
        self._follows_end = is_free and self._is_alone and config.flush_ms == LONG_MAX and self.log.delivery is None

    def ensure_leader(self, current_leader_epoch: int = -1) -> None:
        """Check that this broker leads, in the epoch the client believes in (-1: it does not say).

        Raises: NotLeader, FencedLeaderEpoch, UnknownLeaderEpoch. Source: KIP-320.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise (FencedLeaderEpoch if current_leader_epoch < self.leader_epoch else UnknownLeaderEpoch)(str(self.tp))
        if self.leader_id != self._node_id:
            raise NotLeader(self.leader_id, self.leader_epoch)

    def append(
        self,
        records: Buffer,
        *,
        acks: int = ACKS_ALL,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        request_version: int = LATEST_REQUEST_VERSION,
        validated: ValidatedBatch | None = None,
    ) -> AppendResult:
        """Append one batch as leader and let waiting readers know. `validated`: see `validation`.

        The result may be given to others once `durable` has let its end pass.

        Raises: NotLeader, NotEnoughReplicas, storage.errors. Blocking: a write into the page cache.
        """
        if self.leader_id != self._node_id:
            raise NotLeader(self.leader_id, self.leader_epoch)
        log = self.log
        if acks == ACKS_ALL and origin is AppendOrigin.CLIENT and len(self.isr) < self.replica_count:
            ensure_enough(self.isr, self.log.config.min_insync_replicas, self.replica_count, self.tp)
        try:
            result = log.append(
                records,
                leader_epoch=self.leader_epoch,
                origin=origin,
                request_version=request_version,
                validated=validated,
            )
        except StorageFailure as failure:
            self._on_failure(failure)  # a disk that has failed once is not asked again
            raise
        stats = self.stats
        stats.produce_requests += 1
        if not result.is_duplicate:
            stats.bytes_in += len(records)
            end_offset = result.last_offset + 1
            stats.messages_in += end_offset - result.base_offset
            if not self._follows_end:
                self._after_append(result.base_offset, end_offset)
            elif log.advance_high_watermark(end_offset) and self.waiters:
                self.wake()
        return result

    def append_marker(self, marker: Marker) -> AppendResult:
        """Append the end of a transaction as leader; the last stable offset may move with the high watermark.

        Raises: NotLeader, storage.errors. Blocking: as append.
        """
        self.log.transactions.ensure_marker(marker.producer_id, marker.producer_epoch, marker.transaction_version)
        batch = build_marker(
            is_abort=not marker.is_commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._now_ms(),
        )
        return self.append(batch, origin=AppendOrigin.COORDINATOR)

    def validation(
        self, records: Buffer, request_version: int, inflated: Buffer | None = None
    ) -> Callable[[], ValidatedBatch]:
        """Give the check of a produced batch as a call that shares no state, so that it may run beside the loop."""
        return partial(
            validate,
            records,
            config=self.log.config,
            now_ms=self._now_ms(),
            origin=AppendOrigin.CLIENT,
            request_version=request_version,
            inflated=inflated,
        )

    def delete_records(self, offset: int) -> None:
        """Move the log start forward to `offset`, or to the high watermark, but over nothing that is not due yet.

        Below the log start nothing happens. It is durable once the log starts have been written.
        Raises: NotLeader, RecordsMustStay, OffsetOutOfRange.
        """
        self.ensure_leader()
        log = self.log
        if not log.config.is_delete:
            raise RecordsMustStay(f"records of {self.tp} can not be deleted due to the configured policy")
        wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= wanted <= log.high_watermark:
            raise OffsetOutOfRange(wanted, log.log_start_offset, log.high_watermark)
        if log.increment_log_start_offset(self.visible(wanted)):
            logger.info("records deleted partition=%s log_start=%d", self.tp, log.log_start_offset)
            self.wake()

    def _after_append(self, base_offset: int, end_offset: int) -> None:
        log = self.log
        if log.direct_writes.has_unwritten:
            self._hold_unwritten(base_offset, end_offset)
        if log.durability.is_flush_due(max(log.recovery_point, self._planned_offset)):
            if self._due_flush is None:
                self._due_flush = HeldRecords()
            self._due_flush.hold(base_offset, end_offset)
            self._settle()
            self._disk_work.flush(self, end_offset)
        elif log.config.flush_ms < LONG_MAX:
            self._disk_work.flush_in_time(self)
        self._advance()
        if log.delivery is not None and log.delivery.watermark == base_offset:  # a new head of the line
            self._deliveries.follow(self)

    def _hold_unwritten(self, base_offset: int, end_offset: int) -> None:
        if self._unwritten is None:
            self._unwritten = HeldRecords()
        self._unwritten.hold(base_offset, end_offset)
        if self.log.direct_writes.unwritten_bytes > MAX_UNWRITTEN_BYTES:
            self.close_gate()
        self._disk_work.write(self)

    def _advance(self) -> None:
        log = self.log
        offset = high_watermark(self.isr, self._node_id, log.high_watermark, log.log_end_offset)
        if self._due_flush is not None and offset > self._due_flush.bound:
            offset = self._due_flush.bound
        stable = log.last_stable_offset
        if self.leader_id == self._node_id and log.advance_high_watermark(offset):
            delivery = log.delivery
            if delivery is None or delivery.watermark > stable:
                self.wake()  # else nobody sees more than before

    # --- direct writes, flushes and write-backs ---

    def is_held(self, end_offset: int) -> bool:
        """Tell whether an append that ends there waits for a write or a flush."""
        unwritten, due_flush = self._unwritten, self._due_flush
        if unwritten is not None and end_offset > unwritten.bound:
            return True
        return due_flush is not None and end_offset > due_flush.bound

    async def in_file(self, end_offset: int) -> None:
        """Wait until everything below `end_offset` is in the files, be it in the page cache. Raises: as `durable`."""
        if self._unwritten is not None:
            await self._unwritten.wait(end_offset)

    async def durable(self, end_offset: int) -> None:
        """Wait until neither a direct write nor a due flush holds back what lies below `end_offset`.

        Raises: PartitionOffline or UnknownPartition when the partition has gone meanwhile.
        """
        await self.in_file(end_offset)
        if self._due_flush is not None:
            await self._due_flush.wait(end_offset)

    def written(self) -> None:
        """Note that the log has written some of what was in memory: it becomes visible."""
        log = self.log
        if self._unwritten is not None:
            self._unwritten.let_go(log.direct_writes.written_end_offset)
        if log.direct_writes.unwritten_bytes <= MAX_UNWRITTEN_BYTES:
            self.open_gate()
        self._settle()
        self._advance()

    @property
    def has_room(self) -> bool:
        """Tell whether an append need not wait for its turn."""
        return self._backlog is None

    async def room(self) -> None:
        """Wait for one's turn to append; the partition may have gone when this returns."""
        if self._backlog is not None:
            await self._backlog.wait()

    def _on_rolled(self) -> None:
        self._disk_work.flush(self, self.log.durability.sealed_end_offset)

    def _on_window_full(self) -> None:
        self._disk_work.write_back(self)

    def flush_planned(self, offset: int) -> None:
        """Note that a flush begins, up to `offset`: appends after this are counted from there."""
        self._planned_offset = offset

    def flushed(self, offset: int) -> None:
        """Note that everything below `offset` is durable: what was held back for it becomes visible."""
        due = self._due_flush
        if due is not None and due.is_holding:
            due.let_go(offset)
            self._settle()
            self._advance()

    def close_gate(self) -> None:
        """Let appends wait: two windows are on their way to the disk and a third one is full."""
        self._close_gate(_CROWDED)

    def open_gate(self) -> None:
        """Let appends go on as far as the disk is concerned."""
        self._open_gate(_CROWDED)

    def hold(self) -> None:
        """Let appends wait until `release`: the log is about to be replaced."""
        self._close_gate(_HELD)

    def release(self) -> None:
        """Let appends go on that `hold` made wait."""
        self._open_gate(_HELD)

    @property
    def is_on_hold(self) -> bool:
        """Tell whether the log is about to be replaced."""
        return _HELD in self._closed_for

    def _close_gate(self, reason: str) -> None:
        self._closed_for |= {reason}
        if self._backlog is None:
            self._backlog = Backlog(self._on_gate_idle)
            self._settle()
        self._backlog.is_full = True

    def _open_gate(self, reason: str) -> None:
        self._closed_for -= {reason}
        if self._backlog is not None and not self._closed_for:
            self._backlog.reopen()

    def _on_gate_idle(self) -> None:
        self._backlog = None
        self._settle()

    def fail(self, failure: StorageFailure) -> None:
        """Report that background work has failed: the directory is given up."""
        self._on_failure(failure)

    def leave(self, reason: Exception) -> None:
        """Tell whoever waits that the partition is no longer hosted here."""
        for held in (self._unwritten, self._due_flush):
            if held is not None:
                held.fail(reason)
        self._closed_for = _NOTHING
        if self._backlog is not None:
            self._backlog.dismiss()
            self._backlog = None
        self._deliveries.follow(self)
        self.wake()

    def wake(self) -> None:
        """Let every request that waits for this partition look again."""
        for waiter in self.waiters:
            waiter.wake(self)

    def bound(self, isolation_level: int) -> int:
        """Give the offset below which a consumer of this isolation level may read."""
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.high_watermark

    # --- scheduled delivery ---

    def visible(self, bound: int, budget: StepBudget | None = None) -> int:
        """Lower a bound to what is due by now; on an immediate topic there is nothing to ask."""
        delivery = self.log.delivery
        if delivery is None:
            return bound
        if delivery.watermark < bound:
            self.release_due(budget)
        return min(bound, delivery.watermark)

    def release_due(self, budget: StepBudget | None = None) -> None:
        """Let what has come due be seen, also by requests that wait for it."""
        if (delivery := self.log.delivery) is not None:
            timestamp = delivery.pending_timestamp
            if delivery.advance(self._now_ms(), budget):
                self.wake()
            if delivery.pending_timestamp != timestamp or delivery.is_behind:
                self._deliveries.follow(self)

    async def catch_up(self, deadline: float | None = None) -> None:
        """Wait until `visible` needs no long search to be exact. Raises: SearchTakesTooLong at a time of the loop."""
        delivery = self.log.delivery
        if delivery is not None and delivery.watermark < self.log.high_watermark:
            await self._deliveries.catch_up(self, deadline)
