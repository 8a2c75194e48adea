"""Partition commands: add partitions, elect at start, report directories; and partition image → record.

Source: ReplicationControlManager.createPartitions/handleBrokerUnfenced/handleAssignReplicasToDirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    MetadataError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from broker.metadata.placement import check_assignment, new_partition, place_replicas
from protocol.stored.cluster import PartitionChangeRecord, PartitionRecord
from storage.types import TopicPartition


class NewPartitions(NamedTuple):
    """A topic to extend to `total_count` partitions; `assignments` holds the replicas of each new one, if chosen."""

    name: str
    total_count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsResult(NamedTuple):
    """One topic of an extension."""

    name: str
    error: MetadataError | None = None


def partition_record(topic_id: bytes, number: int, partition: PartitionImage) -> PartitionRecord:
    """Return the record that states a partition whole; empty leader sets of KIP-966 are left out as Kafka does."""
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def plan_create_partitions(image: ClusterImage, topics: Sequence[NewPartitions]) -> Plan[list[CreatePartitionsResult]]:
    """Plan an extension. One result a topic, in request order; a name that stands twice yields one, refused."""
    counts = Counter(topic.name for topic in topics)
    records: list[object] = []
    results: list[CreatePartitionsResult] = []
    for name, request in {topic.name: topic for topic in topics}.items():
        try:
            if counts[name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            added = _added_partitions(image, request)
            if len(records) + len(added) > MAX_RECORDS_PER_COMMAND:
                raise PolicyViolation("Excessively large number of partitions per request.")
        except MetadataError as refusal:
            results.append(CreatePartitionsResult(name, refusal))
            continue
        topic = image.topics_by_name[name]
        first = len(topic.partitions)
        records.extend(partition_record(topic.topic_id, first + i, partition) for i, partition in enumerate(added))
        results.append(CreatePartitionsResult(name))
    return Plan(records, results)


def plan_elections_at_start(image: ClusterImage, broker_id: int) -> list[PartitionChangeRecord]:
    """Return one change a partition that `broker_id` hosts: it leads again, in a new leader epoch.

    A start is an election: clients and logs must tell what was written before from what comes after.
    """
    return [
        _election(topic, number, partition, broker_id)
        for topic in image.topics_by_name.values()
        for number, partition in enumerate(topic.partitions)
        if broker_id in partition.replicas and _may_lead(partition, broker_id)
    ]


def plan_assign_directories(
    image: ClusterImage, broker_id: int, directories: Mapping[TopicPartition, bytes]
) -> Plan[None]:
    """Plan the report of where replicas of `broker_id` landed; what is already known or gone yields no record."""
    records: list[object] = []
    for topic, number, partition, chosen in _reported(image, directories):
        if broker_id not in partition.replicas:
            continue
        position = partition.replicas.index(broker_id)
        if partition.directories[position] == chosen:
            continue
        assigned = list(partition.directories)
        assigned[position] = chosen
        records.append(PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id, directories=assigned))
    return Plan(records, None)


def _added_partitions(image: ClusterImage, request: NewPartitions) -> list[PartitionImage]:
    topic = image.topics_by_name.get(request.name)
    if topic is None:
        raise UnknownTopicOrPartition("This server does not host this topic-partition.")
    present = len(topic.partitions)
    if request.total_count == present:
        raise InvalidPartitions(f"Topic already has {present} partition(s).")
    if request.total_count < present:
        raise InvalidPartitions(
            f"The topic {request.name} currently has {present} partition(s); "
            f"{request.total_count} would not be an increase."
        )
    additional = request.total_count - present
    if additional > MAX_RECORDS_PER_COMMAND:
        raise PolicyViolation("Excessively large number of partitions per request.")
    size = len(topic.partitions[0].replicas)
    if request.assignments is None:
        placed: Sequence[Sequence[int]] = place_replicas(image.brokers, additional, size)
    else:
        placed = request.assignments
        if len(placed) != additional:
            raise InvalidReplicaAssignment(
                f"Attempted to add {additional} additional partition(s), but only {len(placed)} assignment(s) "
                "were specified."
            )
        for replicas in placed:
            check_assignment(image.brokers, replicas, size)
    partitions = [new_partition(image.brokers, replicas) for replicas in placed]
    if None in partitions:
        raise InvalidReplicaAssignment("All brokers specified in the manual partition assignment are fenced.")
    return [partition for partition in partitions if partition is not None]


def _may_lead(partition: PartitionImage, broker_id: int) -> bool:
    """Tell whether the broker is in sync, or is the eligible leader that a clean stop of a Kafka node left behind."""
    if broker_id in partition.isr:
        return partition.leader in (NO_LEADER, broker_id)
    return not partition.isr and broker_id in (partition.eligible_leader_replicas or partition.replicas)


def _election(topic: TopicImage, number: int, partition: PartitionImage, broker_id: int) -> PartitionChangeRecord:
    change = PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id, leader=broker_id)
    if broker_id not in partition.isr:
        change.isr, change.eligible_leader_replicas, change.last_known_elr = [broker_id], [], []
    return change


def _reported(
    image: ClusterImage, directories: Mapping[TopicPartition, bytes]
) -> Iterator[tuple[TopicImage, int, PartitionImage, bytes]]:
    for topic_partition, chosen in directories.items():
        partition = image.partition(topic_partition)
        if partition is not None:
            yield image.topics_by_name[topic_partition.topic], topic_partition.partition, partition, chosen
