"""One partition hosted here: leadership, append, read. The data door into a log.

Invariant: log start ≤ last stable offset ≤ high watermark ≤ log end. While the in-sync set has one member, this broker,
the high watermark follows the log end as soon as an append has returned (broker.partition.isr decides).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.partition.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeader,
    RecordsMustStay,
    UnknownLeaderEpoch,
)
from broker.partition.isr import high_watermark
from broker.partition.purgatory import Waiter
from storage.env.fs import Buffer
from storage.errors import OffsetOutOfRange, StorageFailure
from storage.log.append import AppendResult
from storage.log.partition_log import PartitionLog
from storage.log.validator import LATEST_REQUEST_VERSION, ValidatedBatch, validate
from storage.types import AppendOrigin, TopicPartition

logger = logging.getLogger(__name__)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ACKS_ALL = -1
HIGH_WATERMARK = -1
"""The offset that asks to delete everything that is replicated."""


class Partition:
    """A partition this broker has a replica of."""

    __slots__ = (
        "_is_alone",
        "_node_id",
        "_now_ms",
        "_on_failure",
        "_replica_count",
        "appended_bytes",
        "appended_records",
        "is_deleted",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
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
    ) -> None:
        self.tp = tp
        self.log = log
        self._node_id = node_id
        self._now_ms = now_ms
        self._on_failure = on_failure
        self.leader_id = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self._replica_count = 1
        self._is_alone = False  # we lead and nobody else is in sync: the high watermark is the log end
        self.is_deleted = False
        self.waiters: set[Waiter] = set()
        self.appended_bytes = 0
        self.appended_records = 0

    def __repr__(self) -> str:
        return f"Partition({self.tp}, leader={self.leader_id}, epoch={self.leader_epoch}, log={self.log!r})"

    @property
    def is_leader(self) -> bool:
        """Tell whether this broker leads the partition."""
        return self.leader_id == self._node_id

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
        self._replica_count = replica_count
        self._is_alone = leader_id == self._node_id and isr == (leader_id,)
        self._advance()

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

        Raises: NotLeader, NotEnoughReplicas, storage.errors. Blocking: a write into the page cache.
        """
        if self.leader_id != self._node_id:
            raise NotLeader(self.leader_id, self.leader_epoch)
        log = self.log
        if acks == ACKS_ALL and origin is AppendOrigin.CLIENT and len(self.isr) < self._replica_count:
            self._ensure_enough_replicas()
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
        if not result.is_duplicate:
            self.appended_bytes += len(records)
            end_offset = result.last_offset + 1
            self.appended_records += end_offset - result.base_offset
            if not self._is_alone:
                self._advance()
            elif log.advance_high_watermark(end_offset) and self.waiters:
                self.wake()
        return result

    def _ensure_enough_replicas(self) -> None:
        """Hold acks=all to min.insync.replicas; a setting above the replica count asks for all of them, as in Kafka."""
        required = min(self.log.config.min_insync_replicas, self._replica_count)
        if len(self.isr) < required:
            raise NotEnoughReplicas(
                f"The size of the current ISR Set({', '.join(map(str, self.isr))}) is insufficient to satisfy the "
                f"min.isr requirement of {required} for partition {self.tp}"
            )

    def validation(self, records: Buffer, request_version: int) -> Callable[[], ValidatedBatch]:
        """Give the check of a produced batch as a call that shares no state, so that it may run beside the loop."""
        return partial(
            validate,
            records,
            config=self.log.config,
            now_ms=self._now_ms(),
            origin=AppendOrigin.CLIENT,
            request_version=request_version,
        )

    def delete_records(self, offset: int) -> None:
        """Move the log start forward to `offset`, or to the high watermark; below the log start nothing happens.

        It is durable once the log starts have been written. Raises: NotLeader, RecordsMustStay, OffsetOutOfRange.
        """
        self.ensure_leader()
        log = self.log
        if not log.config.is_delete:
            raise RecordsMustStay(f"records of {self.tp} can not be deleted due to the configured policy")
        wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted < 0:
            raise OffsetOutOfRange(wanted, log.log_start_offset, log.high_watermark)
        if log.increment_log_start_offset(wanted):
            logger.info("records deleted partition=%s log_start=%d", self.tp, wanted)
            self.wake()

    def _advance(self) -> None:
        log = self.log
        if self.leader_id == self._node_id and log.advance_high_watermark(
            high_watermark(self.isr, self._node_id, log.high_watermark, log.log_end_offset)
        ):
            self.wake()

    def wake(self) -> None:
        """Let every request that waits for this partition look again."""
        for waiter in self.waiters:
            waiter.wake(self)

    def bound(self, isolation_level: int) -> int:
        """Give the offset below which a consumer of this isolation level may read."""
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.high_watermark
