"""Groups with their members and how far they are behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice

from broker.coordinator.errors import GroupIdNotFound
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.records import CommittedOffset
from broker.coordinator.group.shard import AnyGroup
from broker.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE, parse_assignment
from broker.metadata.image import ClusterImage
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.runtime.turns import Turns
from broker.status.model import GroupDetail, GroupRow, MemberRow, OffsetRow
from broker.status.parts import Parts
from broker.status.read.health import read_frame
from protocol.errors import ProtocolError

Committed = Mapping[str, Mapping[int, CommittedOffset]]

MAX_MEMBERS = 50
"""Of a group are read; a group may have thousands, and each may have been assigned thousands of partitions."""
MAX_SHOWN_TOPICS = 20
"""Of an assignment."""
MAX_SHOWN_PARTITIONS = 20
"""Of one topic in an assignment."""
MAX_ASSIGNMENT_BYTES = 16_384
"""Of a classic member: a leader writes what it likes, and reading it takes the loop some 0.1 ms for each KiB."""
LOADING = "they are still loading"


async def read_groups(parts: Parts) -> tuple[list[GroupRow], str]:
    """List all groups, or say why they cannot be told."""
    coordinators = parts.coordinators()
    assert coordinators is not None
    if coordinators.groups.count_partitions()["loading"]:
        return [], LOADING
    turns = Turns(parts.clock.monotonic_ns)
    rows = [
        await _row(group, shard.offsets.of_group(group.group_id), parts.watched.partitions, turns)
        for shard in coordinators.groups.shards()
        for group in list(shard.all_groups())
    ]
    return rows, ""


async def _row(group: AnyGroup, committed: Committed, partitions: PartitionManager, turns: Turns) -> GroupRow:
    lag = count = 0
    await turns.next()
    for topic, offsets in list(committed.items()):
        count += len(offsets)
        for number, one in list(offsets.items()):
            lag += lag_of(partitions.find((topic, number)), one) or 0
            await turns.next()
    return GroupRow(group.group_id, group.group_type, group.state.value, len(group.members), count, lag)


def lag_of(partition: Partition | None, committed: CommittedOffset) -> int | None:
    """Return how many offsets a group is behind, negative when it is ahead; None where the partition is not here."""
    if partition is None:
        return None
    return partition.log.released_end_offset - committed.offset


async def read_group(parts: Parts, group_id: str) -> GroupDetail | None:
    """Return a group with some of its members and all of its offsets; None when there is no such group.

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
    turns, partitions = Turns(parts.clock.monotonic_ns), parts.watched.partitions
    protocol = ", ".join(sorted(group.assignors)) if isinstance(group, ConsumerGroup) else group.protocol_name or ""
    members = await _members(group, coordinators.image, turns)
    offsets = []
    for topic, of_topic in sorted(committed.items()):
        for number, one in sorted(of_topic.items()):
            offsets.append(_offset(topic, number, one, partitions.find((topic, number))))
            await turns.next()
    row = await _row(group, committed, partitions, turns)
    return GroupDetail(read_frame(parts), row, protocol, members, tuple(offsets))


def _offset(topic: str, number: int, committed: CommittedOffset, partition: Partition | None) -> OffsetRow:
    end = None if partition is None else partition.log.released_end_offset
    return OffsetRow(topic, number, committed.offset, end, lag_of(partition, committed))


async def _members(group: AnyGroup, image: ClusterImage, turns: Turns) -> tuple[MemberRow, ...]:
    rows = []
    members: Iterable[ClassicMember | ConsumerMember] = group.members.values()
    for member in list(islice(members, MAX_MEMBERS)):
        if isinstance(member, ConsumerMember):
            instance_id, assigned = member.instance_id, _named(member.assigned, image)
        else:
            instance_id = member.group_instance_id
            is_known = member.protocol_type == CONSUMER_PROTOCOL_TYPE
            assigned = _classic_assignment(member.assignment) if is_known else ()
        rows.append(MemberRow(member.member_id, instance_id, member.client_id, member.client_host, assigned))
        await turns.rest()
    return tuple(rows)


def _classic_assignment(data: bytes) -> tuple[str, ...]:
    if len(data) > MAX_ASSIGNMENT_BYTES:
        return ("too long to be shown",)
    try:
        assigned = parse_assignment(data).assigned_partitions if data else []
    except ProtocolError:
        return ()
    return _shown([(one.topic, one.partitions) for one in assigned])


def _named(assigned: Mapping[bytes, Collection[int]], image: ClusterImage) -> tuple[str, ...]:
    topics = image.topics_by_id
    return _shown([(topics[topic].name, numbers) for topic, numbers in assigned.items() if topic in topics])


def _shown(assigned: Sequence[tuple[str, Collection[int]]]) -> tuple[str, ...]:
    rest = len(assigned) - MAX_SHOWN_TOPICS
    some = [f"{topic}: {_numbers(numbers)}" for topic, numbers in assigned[:MAX_SHOWN_TOPICS]]
    return (*some, f"and {rest} more topics") if rest > 0 else tuple(some)


def _numbers(numbers: Collection[int]) -> str:
    rest = len(numbers) - MAX_SHOWN_PARTITIONS
    some = ", ".join(map(str, nsmallest(MAX_SHOWN_PARTITIONS, numbers)))
    return some + (f" and {rest} more" if rest > 0 else "")
