"""Markers: the control batches that end a producer's transaction on a partition, written as its leader.

Whoever decides about a transaction (the transaction coordinator, or an operator through WriteTxnMarkers) comes through
`MarkerWriter`. A coordinator that keeps state in a partition writes the markers there itself, between its own records, so
that it sees each transaction end where the log says. Source: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from protocol.records.control import build_marker
from storage.log.append import AppendResult
from storage.types import AppendOrigin, TopicPartition


class Marker(NamedTuple):
    """What is decided about the transaction of one producer."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


Owner = Callable[[int, Marker], Awaitable[object]]
"""Writes a marker to a partition, given by its number, of a topic that a coordinator keeps its state in."""


def append_marker(partition: Partition, marker: Marker, now_ms: int) -> AppendResult:
    """Append a marker here and now; readers are woken, since the last stable offset may have moved.

    Raises: NotLeader, storage.errors.InvalidProducerEpoch, TransactionCoordinatorFenced, StorageFailure.
    """
    log = partition.log
    log.transactions.ensure_marker(marker.producer_id, marker.producer_epoch, marker.transaction_version)
    batch = build_marker(
        is_abort=not marker.is_commit,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
        leader_epoch=partition.leader_epoch,
    )
    return partition.append(batch, origin=AppendOrigin.COORDINATOR)


class MarkerWriter:
    """Writes markers to partitions of this broker."""

    def __init__(self, partitions: PartitionManager, now_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._now_ms = now_ms
        self._owners: dict[str, Owner] = {}

    def leave_to(self, topic: str, owner: Owner) -> None:
        """Leave the markers of a topic to the coordinator that keeps its state there."""
        self._owners[topic] = owner

    async def write_marker(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """End a transaction on a partition; returns once the marker would survive what acks=all does.

        Raises: broker.partition.errors, storage.errors; NotLeader also while the topic's coordinator is not ready.
        """
        marker = Marker(producer_id, producer_epoch, is_commit, coordinator_epoch, transaction_version)
        owner = self._owners.get(tp.topic)
        if owner is not None:
            self._partitions.get(*tp).ensure_leader()
            await owner(tp.partition, marker)
            return
        await self.append(tp, marker)

    async def append(self, tp: TopicPartition, marker: Marker) -> int:
        """Append a marker and wait until it is durable; gives the offset after it. Raises: as write_marker."""
        partition = self._partitions.get(*tp)
        while partition.is_on_hold:
            await partition.room()
            partition = self._partitions.get(*tp)
        end_offset = append_marker(partition, marker, self._now_ms()).last_offset + 1
        await partition.durable(end_offset)
        return end_offset
