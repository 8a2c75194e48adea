"""What becomes of partitions with the log directories they lie in: elections at a start, leaders lost with a disk.

Metadata name a directory for each replica, the broker knows where its logs really are; where both differ, what is there
counts and is recorded. A partition whose directory is away has no leader. Its in-sync set stays: the last member of it
has the records, and leads again once the directory is back.

Source: KIP-858, KIP-1066; ReplicationControlManager.handleDirectoriesOffline, handleBrokerUnfenced,
handleAssignReplicasToDirs, handleDirectoriesCordoned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from broker.metadata.controller.features import tells_cordoned_dirs
from broker.metadata.controller.plan import Plan
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionDelta, PartitionImage, partitions_of
from protocol.stored.cluster import BrokerRegistrationChangeRecord, PartitionChangeRecord
from storage.types import TopicPartition

Whereabouts = Mapping[TopicPartition, bytes]
"""The id of the directory that holds each partition's current log, also where that directory has just failed."""


def plan_elections_at_start(image: ClusterImage, broker_id: int, where: Whereabouts) -> list[PartitionChangeRecord]:
    """Return one change a partition that `broker_id` hosts: it leads again, in a new leader epoch, or it is away.

    A start is an election: clients and logs must tell what was written before from what comes after.
    """
    registered = image.brokers[broker_id]
    changes = []
    for replica in _replicas(image, broker_id):
        actual = where.get(replica.placed.topic_partition, replica.directory)
        if not registered.has_online_dir(actual):
            if replica.image.leader == broker_id:
                changes.append(_without_leader(replica, broker_id))
        elif _may_lead(replica.image, broker_id):
            changes.append(_election(replica, broker_id, actual))
    return changes


def plan_dirs_offline(
    image: ClusterImage, broker_id: int, offline: Collection[bytes], where: Whereabouts
) -> Plan[None]:
    """Plan the report of directories that have failed: their partitions lose their leader, the broker the directories.

    A partition that was recorded there, but is served from elsewhere, is recorded where it is.
    """
    records: list[object] = []
    for replica in _replicas(image, broker_id):
        actual = where.get(replica.placed.topic_partition, replica.directory)
        if actual in offline:
            if replica.image.leader == broker_id or actual != replica.directory:
                records.append(_without_leader(replica, broker_id, actual))
        elif replica.directory in offline:
            records.append(_change(replica, directories=_assigned(replica, actual)))
    broker = image.brokers[broker_id]
    left = [directory for directory in broker.log_dirs if directory not in offline]
    if len(left) < len(broker.log_dirs):
        records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=left))
    return Plan(records, None)


def plan_assign_directories(image: ClusterImage, broker_id: int, directories: Whereabouts) -> Plan[None]:
    """Plan the report of where replicas of `broker_id` landed; what is already known or gone yields no record.

    One that landed in a directory which has failed meanwhile has no leader any more.
    """
    records: list[object] = []
    for replica in _replicas(image, broker_id, directories):
        landed = directories[replica.placed.topic_partition]
        if landed == replica.directory:
            continue
        if image.brokers[broker_id].has_online_dir(landed):
            records.append(_change(replica, directories=_assigned(replica, landed)))
        else:
            records.append(_without_leader(replica, broker_id, landed))
    return Plan(records, None)


def plan_cordon_directories(image: ClusterImage, broker_id: int, cordoned: Collection[bytes]) -> Plan[None]:
    """Plan the report of which directories are cordoned; none, too, is said once. Older readers are told nothing."""
    broker = image.brokers[broker_id]
    known = broker.cordoned_log_dirs
    if not tells_cordoned_dirs(image) or (known is not None and set(known) == set(cordoned)):
        return Plan([], None)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
    )
    return Plan([change], None)


class _Replica(NamedTuple):
    """A broker's replica of a partition: the partition, and which of its directories is the broker's."""

    placed: PartitionDelta
    position: int

    @property
    def image(self) -> PartitionImage:
        return self.placed.image

    @property
    def directory(self) -> bytes:
        return self.image.directories[self.position]


def _replicas(
    image: ClusterImage, broker_id: int, partitions: Collection[TopicPartition] | None = None
) -> Iterator[_Replica]:
    """Yield the replicas of a broker: all, or those of some partitions."""
    if partitions is None:
        every = (placed for topic in image.topics_by_name.values() for placed in partitions_of(topic))
    else:
        every = (
            PartitionDelta(image.topics_by_name[tp.topic], tp.partition, partition)
            for tp in partitions
            if (partition := image.partition(tp)) is not None
        )
    for placed in every:
        if broker_id in placed.image.replicas:
            yield _Replica(placed, placed.image.replicas.index(broker_id))


def _may_lead(partition: PartitionImage, broker_id: int) -> bool:
    """Tell whether the broker is in sync, or is the eligible leader that a clean stop of a Kafka node left behind."""
    if broker_id in partition.isr:
        return partition.leader in (NO_LEADER, broker_id)
    return not partition.isr and broker_id in (partition.eligible_leader_replicas or partition.replicas)


def _election(replica: _Replica, broker_id: int, directory: bytes) -> PartitionChangeRecord:
    change = _change(replica, leader=broker_id)
    if broker_id not in replica.image.isr:
        change.isr, change.eligible_leader_replicas, change.last_known_elr = [broker_id], [], []
    if directory != replica.directory:
        change.directories = _assigned(replica, directory)
    return change


def _without_leader(replica: _Replica, broker_id: int, directory: bytes | None = None) -> PartitionChangeRecord:
    """Let a replica go out of sync, unless nobody would be left; name its directory where that is news."""
    change = _change(replica, leader=NO_LEADER)
    others = [member for member in replica.image.isr if member != broker_id]
    if others and len(others) < len(replica.image.isr):
        change.isr = others
    if directory is not None and directory != replica.directory:
        change.directories = _assigned(replica, directory)
    return change


def _assigned(replica: _Replica, directory: bytes) -> list[bytes]:
    directories = list(replica.image.directories)
    directories[replica.position] = directory
    return directories


def _change(replica: _Replica, **values: object) -> PartitionChangeRecord:
    """Begin the change of a partition; naming a leader, even the same one, begins a new leader epoch."""
    topic, number, _ = replica.placed
    return PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id, **values)  # type: ignore[arg-type]
