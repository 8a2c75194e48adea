"""Markers: the control batches that end a producer's transaction on a partition, written as its leader.

Whoever decides about a transaction (the transaction coordinator, or an operator through WriteTxnMarkers) comes through
`MarkerWriter`. A coordinator that keeps state in a partition writes the markers there itself, between its own records,
so that it sees each transaction end where the log says. Source: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.partition.manager import PartitionManager
from broker.partition.partition import Marker
from storage.types import TopicPartition

Owner = Callable[[int, Marker], Awaitable[object]]
"""Writes a marker to a partition, given by its number, of a topic that a coordinator keeps its state in."""


async def append_marker(partitions: PartitionManager, tp: TopicPartition, marker: Marker) -> int:
    """Append a marker and wait until it is durable; gives the offset after it.

    Like the records of coordinators it waits for a log that is being replaced, but not for write-backs.
    Raises: broker.partition.errors, storage.errors.
    """
    partition = partitions.get(*tp)
    while partition.is_on_hold:
        await partition.room()
        partition = partitions.get(*tp)
    end_offset = partition.append_marker(marker).last_offset + 1
    await partition.durable(end_offset)
    return end_offset


class MarkerWriter:
    """Writes markers to partitions of this broker."""

    def __init__(self, partitions: PartitionManager) -> None:
        self._partitions = partitions
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
        if owner is None:
            await append_marker(self._partitions, tp, marker)
        else:
            self._partitions.get(*tp).ensure_leader()
            await owner(tp.partition, marker)
