"""Groups with their members and how far they are behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.coordinator.errors import CoordinatorError, GroupIdNotFound
from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.records import CommittedOffset
from broker.coordinator.group.shard import AnyGroup
from broker.coordinator.group.subscription import parse_assignment
from broker.metadata.image import ClusterImage
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.status.model import GroupRow, MemberRow, OffsetRow
from broker.status.parts import Parts
from broker.status.read.turns import Turns
from protocol.errors import ProtocolError

Committed = Mapping[str, Mapping[int, CommittedOffset]]

MAX_SHOWN_PARTITIONS = 20
"""Of one topic in an assignment; a member may have thousands."""


async def read_groups(parts: Parts) -> tuple[list[GroupRow], str]:
    """List all groups, or say why they cannot be told."""
    coordinators = parts.coordinators()
    assert coordinators is not None
    groups = coordinators.groups
    try:
        found = tuple(groups.groups())
    except CoordinatorError as refusal:
        return [], str(refusal) or type(refusal).__name__
    turns = Turns()
    rows = []
    for group in found:
        await turns.next()
        try:
            rows.append(_row(group, groups.committed_offsets(group.group_id), parts.watched.partitions))
        except CoordinatorError:
            continue  # its partition was let go of meanwhile
    return rows, ""


def _row(group: AnyGroup, committed: Committed, partitions: PartitionManager) -> GroupRow:
    lag = count = 0
    for topic, offsets in committed.items():
        count += len(offsets)
        for number, one in offsets.items():
            lag += lag_of(partitions.find((topic, number)), one) or 0
    return GroupRow(group.group_id, group.group_type, group.state.value, len(group.members), count, lag)


def lag_of(partition: Partition | None, committed: CommittedOffset) -> int | None:
    """Return how many offsets a group is behind, negative when it is ahead; None where the partition is not here."""
    if partition is None:
        return None
    return partition.log.high_watermark - committed.offset


def read_group(
    parts: Parts, group_id: str
) -> tuple[GroupRow, str, tuple[MemberRow, ...], tuple[OffsetRow, ...]] | None:
    """Return a group, its protocol, its members and its offsets; None when there is no such group.

    Raises: CoordinatorError while groups are loaded.
    """
    coordinators = parts.coordinators()
    if coordinators is None:
        return None
    try:
        group = coordinators.groups.group(group_id)
        committed = coordinators.groups.committed_offsets(group_id)
    except GroupIdNotFound:
        return None
    partitions = parts.watched.partitions
    protocol, members = (
        _consumer_members(group, coordinators.image) if isinstance(group, ConsumerGroup) else _members(group)
    )
    offsets = tuple(
        _offset(topic, number, committed[topic][number], partitions.find((topic, number)))
        for topic in sorted(committed)
        for number in sorted(committed[topic])
    )
    return _row(group, committed, partitions), protocol, members, offsets


def _offset(topic: str, number: int, committed: CommittedOffset, partition: Partition | None) -> OffsetRow:
    end = None if partition is None else partition.log.high_watermark
    return OffsetRow(topic, number, committed.offset, end, lag_of(partition, committed))


def _members(group: ClassicGroup) -> tuple[str, tuple[MemberRow, ...]]:
    members = tuple(
        MemberRow(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host,
            _classic_assignment(one.assignment) if group.uses_consumer_protocol else (),
        )
        for one in group.members.values()
    )
    return group.protocol_name or "", members


def _classic_assignment(data: bytes) -> tuple[str, ...]:
    if not data:
        return ()
    try:
        assigned = parse_assignment(data).assigned_partitions
    except ProtocolError:
        return ()
    return tuple(_assigned(one.topic, one.partitions) for one in assigned)


def _consumer_members(group: ConsumerGroup, image: ClusterImage) -> tuple[str, tuple[MemberRow, ...]]:
    def names(assigned: Mapping[bytes, Iterable[int]]) -> tuple[str, ...]:
        return tuple(
            _assigned(image.topics_by_id[topic_id].name, numbers)
            for topic_id, numbers in assigned.items()
            if topic_id in image.topics_by_id
        )

    members = tuple(
        MemberRow(one.member_id, one.instance_id, one.client_id, one.client_host, names(one.assigned))
        for one in group.members.values()
    )
    return ", ".join(sorted(group.assignors)), members


def _assigned(topic: str, numbers: Iterable[int]) -> str:
    in_order = sorted(numbers)
    shown = ", ".join(map(str, in_order[:MAX_SHOWN_PARTITIONS]))
    rest = len(in_order) - MAX_SHOWN_PARTITIONS
    return f"{topic}: {shown}" + (f" and {rest} more" if rest > 0 else "")
