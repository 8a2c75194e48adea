"""Consumer groups as `__consumer_offsets` stores them, and back.

A member takes three records (its metadata, its target, what it has now), a group two (its epoch with the hash of its
topics, the epoch of its target), a regular expression one. The order in which a group's are deleted matters to readers
that check (Kafka does): what a member has, its target, its metadata; the group's epoch last.
Source: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from broker.coordinator.group.consumer.member import (
    Assigned,
    ClassicFacts,
    ConsumerMember,
    MemberState,
    Target,
)
from broker.coordinator.shard import CoordinatorRecord
from protocol.stored.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from protocol.stored.framing import encode_key, encode_versioned

VALUE_VERSION = 0


class ParsedTarget(NamedTuple):
    """A member's target as a record of it says."""

    group_id: str
    member_id: str
    target: Target


class ParsedCurrent(NamedTuple):
    """What a member has as a record of it says; only that part of `member` counts."""

    group_id: str
    member: ConsumerMember


class ParsedRegex(NamedTuple):
    """What a regular expression matches as a record of it says."""

    group_id: str
    expression: str
    resolved: ResolvedRegex


Parsed = ParsedTarget | ParsedCurrent | ParsedRegex
"""The records that may be large, as replay would read them."""

# -- writing ---------------------------------------------------------------------------------------------------------


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Write who a member is and what it asks for."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Write the group's epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    """Write a member's target."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(target.items())
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, value, ParsedTarget(group_id, member_id, target))


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Write the epoch all targets are of."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Write what a member has, in which epoch."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_stored(member.assigned),
        partitions_pending_revocation=_stored(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value, ParsedCurrent(group_id, member))


def regex_record(group_id: str, expression: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Write what a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    return _record(key, value, ParsedRegex(group_id, expression, resolved))


def regex_tombstone(group_id: str, expression: str) -> CoordinatorRecord:
    """Delete a regular expression."""
    return _tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Delete what releases before Kafka 4.1 kept instead of the hash of the topics."""
    return _tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> Iterator[CoordinatorRecord]:
    """Delete a member."""
    yield _tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))
    yield _tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
    yield _tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def group_tombstones(group: ConsumerGroup, renamed: tuple[str, str] | None = None) -> Iterator[CoordinatorRecord]:
    """Delete a group with everyone in it; of two ids the first goes by the second in what was written before."""
    group_id = group.group_id
    member_ids = [renamed[1] if renamed and member_id == renamed[0] else member_id for member_id in group.members]
    for member_id in member_ids:
        yield _tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))
    for member_id in member_ids:
        yield _tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
    yield _tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
    for member_id in member_ids:
        yield _tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))
    for expression in group.resolved:
        yield regex_tombstone(group_id, expression)
    yield partition_metadata_tombstone(group_id)
    yield _tombstone(ConsumerGroupMetadataKey(group_id=group_id))


def whole_group(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """Write a group that did not exist before, with everyone in it."""
    group_id, members = group.group_id, group.members.values()
    for member in members:
        yield member_record(group_id, member)
    yield epoch_record(group_id, group.epoch, group.metadata_hash)
    for member in members:
        yield target_record(group_id, member.member_id, group.target_of(member))
    yield target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms)
    for member in members:
        yield current_record(group_id, member)


def _record(key: object, value: object, parsed: Parsed | None = None) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), encode_versioned(value, VALUE_VERSION), parsed)


def _tombstone(key: object) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None)


def _stored(assigned: Assigned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in sorted(assigned.items())
    ]


# -- reading ---------------------------------------------------------------------------------------------------------


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """Return a member with what a stored record says of it."""
    classic = value.classic_member_metadata
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicFacts(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    )


def with_assignment(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """Return a member with what a stored record says it has."""
    return member._replace(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_assigned(value.assigned_partitions, value.member_epoch),
        pending_revocation=_assigned(value.partitions_pending_revocation, value.member_epoch),
    )


def target_of_value(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    """Read a member's target."""
    return {part.topic_id: frozenset(part.partitions) for part in value.topic_partitions}


def resolved_of_value(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """Read what a regular expression matches."""
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


def _assigned(parts: Iterable[TopicPartitions], member_epoch: int) -> Assigned:
    """Read partitions with their epochs; releases before Kafka 4.3 wrote none, then the member's own stands in."""
    assigned: dict[bytes, dict[int, int]] = {}
    for part in parts:
        epochs = part.assignment_epochs
        if epochs is None or len(epochs) != len(part.partitions):
            epochs = [max(member_epoch, 0)] * len(part.partitions)
        assigned[part.topic_id] = dict(zip(part.partitions, epochs, strict=True))
    return assigned
