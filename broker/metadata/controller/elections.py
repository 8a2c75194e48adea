"""ElectLeaders as a plan on an image; pure.

Only this node leads anything, so an election has something to choose only where metadata come from a former cluster:
a partition whose in-sync replicas are all away has no leader until somebody accepts that records may be lost.

Source: ReplicationControlManager.electLeaders, PartitionChangeBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    MetadataError,
    PolicyViolation,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from protocol.stored.cluster import PartitionChangeRecord
from storage.types import TopicPartition


class ElectionType(IntEnum):
    """Who may be elected, numbered as on the wire."""

    PREFERRED = 0
    """The first of the replicas, if it is in sync."""
    UNCLEAN = 1
    """Any replica, for a partition without a leader."""


class ElectionResult(NamedTuple):
    """One partition: elected, or why not."""

    partition: TopicPartition
    error: MetadataError | None = None


def election_type(number: int) -> ElectionType:
    """Return the type of a number. Raises InvalidRequest."""
    try:
        return ElectionType(number)
    except ValueError:
        raise InvalidRequest(f"Unknown election type {number}") from None


def plan_elections(
    image: ClusterImage, kind: ElectionType, partitions: Sequence[TopicPartition]
) -> Plan[list[ElectionResult]]:
    """Plan an election in each partition. One result an entry, in request order."""
    records: list[object] = []
    results: list[ElectionResult] = []
    for tp in partitions:
        try:
            record = _elect(image, kind, tp)
            if len(records) == MAX_RECORDS_PER_COMMAND:
                raise PolicyViolation("Excessively large number of partitions per request.")
            records.append(record)
        except MetadataError as refusal:
            results.append(ElectionResult(tp, refusal))
        else:
            results.append(ElectionResult(tp))
    return Plan(records, results)


def all_partitions(image: ClusterImage) -> Iterable[TopicPartition]:
    """Yield every partition there is."""
    for topic in image.topics_by_name.values():
        for number in range(len(topic.partitions)):
            yield TopicPartition(topic.name, number)


def _elect(image: ClusterImage, kind: ElectionType, tp: TopicPartition) -> PartitionChangeRecord:
    topic = image.topics_by_name.get(tp.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {tp.topic}")
    partition = image.partition(tp)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {tp.topic}-{tp.partition}")
    has_leader = partition.leader != NO_LEADER
    if has_leader and (kind is ElectionType.UNCLEAN or partition.leader == partition.replicas[0]):
        raise ElectionNotNeeded("Leader election not needed for topic partition.")
    able = [broker for broker in partition.replicas if _can_lead(image, partition, broker)]
    in_sync = [broker for broker in able if broker in partition.isr]
    change = PartitionChangeRecord(partition_id=tp.partition, topic_id=topic.topic_id)
    if kind is ElectionType.PREFERRED:
        # Without a leader any replica in sync will do; with one, only the preferred replica is worth a change.
        candidates = in_sync if not has_leader else [one for one in in_sync if one == partition.replicas[0]]
        if not candidates:
            raise PreferredLeaderNotAvailable("The preferred leader was not available.")
        change.leader = candidates[0]
    elif in_sync:
        change.leader = in_sync[0]
    elif able:
        # What it has is from now on what the partition has; it leads alone, so nothing is left to recover from.
        change.leader, change.isr = able[0], [able[0]]
        change.eligible_leader_replicas, change.last_known_elr = [], []
    else:
        raise EligibleLeadersNotAvailable("Eligible topic partition leaders are not available.")
    return change


def _can_lead(image: ClusterImage, partition: PartitionImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and broker_id not in image.offline_replicas(partition)
