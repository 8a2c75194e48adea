"""AlterPartitionReassignments and ListPartitionReassignments as plans on an image; pure.

Each partition stands alone. The order of the checks is Kafka's: topic, partition, then a cancellation, or the target:
empty, unknown brokers, a broker twice, a changed factor.

Nothing replicates to another broker here, so a reassignment never takes time. A target that asks for a new replica is
refused where Kafka would wait for the replica to catch up; replicas of other brokers, which the metadata of a former
cluster may list, can be removed at once while what stays is in sync. A reassignment that such metadata left in the
middle is listed and can be cancelled.

Source: ReplicationControlManager, PartitionReassignmentReplicas, PartitionReassignmentRevert; KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MetadataError,
    NoReassignmentInProgress,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from broker.metadata.image import ClusterImage, PartitionImage, TopicImage
from broker.metadata.placement import UNASSIGNED_DIR, check_assignment
from protocol.stored.cluster import PartitionChangeRecord


class Reassignment(NamedTuple):
    """The replicas that a partition is to have; None cancels what is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class OngoingReassignment(NamedTuple):
    """A partition whose replicas are between two assignments."""

    topic: str
    partition: int
    image: PartitionImage


def plan_reassignments(
    image: ClusterImage, targets: Sequence[Reassignment], *, may_change_factor: bool
) -> Plan[list[MetadataError | None]]:
    """Plan reassignments. One result an entry, in request order: why it was refused, or None."""
    records: list[object] = []
    results: list[MetadataError | None] = []
    for target in targets:
        try:
            record = _change(image, target, may_change_factor)
            if record is not None:
                if len(records) == MAX_RECORDS_PER_COMMAND:
                    raise PolicyViolation("Excessively large number of partitions per request.")
                records.append(record)
        except MetadataError as refusal:
            results.append(refusal)
        else:
            results.append(None)
    return Plan(records, results)


def ongoing_reassignments(
    image: ClusterImage, asked: Iterable[tuple[str, Sequence[int]]] | None
) -> Iterator[OngoingReassignment]:
    """Yield the reassignments under way among the partitions asked for, or among all; unknown ones are passed over."""
    if asked is None:
        asked = ((topic.name, range(len(topic.partitions))) for topic in image.topics_by_name.values())
    for name, numbers in asked:
        topic = image.topics_by_name.get(name)
        if topic is None:
            continue
        for number in dict.fromkeys(numbers):
            if 0 <= number < len(topic.partitions) and _is_in_progress(topic.partitions[number]):
                yield OngoingReassignment(name, number, topic.partitions[number])


def _is_in_progress(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _change(image: ClusterImage, target: Reassignment, may_change_factor: bool) -> PartitionChangeRecord | None:
    """Return the record that carries a reassignment out, or None when there is nothing to do."""
    topic = image.topics_by_name.get(target.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {target.topic}.")
    if not 0 <= target.partition < len(topic.partitions):
        raise UnknownTopicOrPartition(f"Unable to find partition {target.topic}:{target.partition}.")
    partition = topic.partitions[target.partition]
    if target.replicas is None:
        return _change_to(topic, target.partition, _original_replicas(topic, target.partition))
    check_assignment(image.brokers, target.replicas, None)
    if not may_change_factor:
        _check_factor(partition, len(target.replicas))
    added = next((broker for broker in target.replicas if broker not in partition.replicas), None)
    if added is not None:
        raise InvalidReplicaAssignment(f"Broker {added} cannot become a replica: nothing is replicated to it.")
    if target.replicas == partition.replicas and not _is_in_progress(partition):
        return None
    is_reordered = len(target.replicas) == len(partition.replicas)
    if not is_reordered and not {*partition.isr} >= {*target.replicas}:
        raise InvalidReplicaAssignment("A replica that would stay is not in sync with the leader.")
    return _change_to(topic, target.partition, target.replicas)


def _original_replicas(topic: TopicImage, number: int) -> tuple[int, ...]:
    """Return the replicas from before a reassignment that is to be cancelled."""
    partition = topic.partitions[number]
    if not _is_in_progress(partition):
        raise NoReassignmentInProgress
    replicas = tuple(broker for broker in partition.replicas if broker not in partition.adding_replicas)
    if not replicas:
        raise InvalidReplicaAssignment("Invalid replica assignment: addingReplicas contains all replicas.")
    if not {*replicas} & {*partition.isr}:
        raise InvalidReplicaAssignment(
            f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean "
            "leader election."
        )
    return replicas


def _check_factor(partition: PartitionImage, size: int) -> None:
    before = len({*partition.replicas, *partition.adding_replicas} - {*partition.removing_replicas})
    if size != before:
        raise InvalidReplicationFactor(f"The replication factor is changed from {before} to {size}")


def _change_to(topic: TopicImage, number: int, replicas: tuple[int, ...]) -> PartitionChangeRecord:
    """Return the change to a part of a partition's replicas, in their new order."""
    partition = topic.partitions[number]
    isr = [broker for broker in partition.isr if broker in replicas]
    change = PartitionChangeRecord(
        partition_id=number,
        topic_id=topic.topic_id,
        replicas=list(replicas),
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        directories=[_directory_of(partition, broker) for broker in replicas],
    )
    if len(replicas) < len(partition.replicas):
        # A new leader epoch keeps those that are replicas no more from taking part.
        change.leader = partition.leader if partition.leader in isr else isr[0]
    return change


def _directory_of(partition: PartitionImage, broker: int) -> bytes:
    position = partition.replicas.index(broker)
    return partition.directories[position] if position < len(partition.directories) else UNASSIGNED_DIR
