"""Adding partitions as a command, and partition image → record. Source: ReplicationControlManager.createPartitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Charge, Plan, uncharged
from broker.metadata.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    MetadataError,
    PolicyViolation,
    ThrottlingQuotaExceeded,
    UnknownTopicOrPartition,
)
from broker.metadata.image import ClusterImage, PartitionImage
from broker.metadata.placement import check_assignment, new_partition, place_replicas
from protocol.stored.cluster import PartitionRecord


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


def plan_create_partitions(
    image: ClusterImage,
    topics: Sequence[NewPartitions],
    full_brokers: Container[int] = (),
    charge: Charge = uncharged,
) -> Plan[list[CreatePartitionsResult]]:
    """Plan an extension. One result a topic, in request order; a name that stands twice yields one, refused.

    `full_brokers` get new partitions only where the client chose them.
    """
    counts = Counter(topic.name for topic in topics)
    records: list[object] = []
    results: list[CreatePartitionsResult] = []
    for name, request in {topic.name: topic for topic in topics}.items():
        try:
            if counts[name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            added = _added_partitions(image, request, full_brokers)
            if len(records) + len(added) > MAX_RECORDS_PER_COMMAND:
                raise PolicyViolation("Excessively large number of partitions per request.")
            if not charge(len(added)):
                raise ThrottlingQuotaExceeded
        except MetadataError as refusal:
            results.append(CreatePartitionsResult(name, refusal))
            continue
        topic = image.topics_by_name[name]
        first = len(topic.partitions)
        records.extend(partition_record(topic.topic_id, first + i, partition) for i, partition in enumerate(added))
        results.append(CreatePartitionsResult(name))
    return Plan(records, results)


def _added_partitions(
    image: ClusterImage, request: NewPartitions, full_brokers: Container[int]
) -> list[PartitionImage]:
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
        placed: Sequence[Sequence[int]] = place_replicas(image.brokers, additional, size, full_brokers)
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
