"""Replay of a shard's consumer groups: the only place where their stored state changes.

Records of one group may come in any order that compaction leaves, so each makes the group and the member it speaks of.
Source: GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import LEAVE_EPOCH, NOTHING_ASSIGNED, ConsumerMember
from broker.coordinator.group.consumer.records import (
    Parsed,
    ParsedCurrent,
    ParsedRegex,
    ParsedTarget,
    resolved_of_value,
    target_of_value,
    with_assignment,
    with_metadata,
)
from broker.coordinator.shard import CoordinatorRecord
from protocol.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.stored.framing import decode_key, decode_versioned

_SCHEMAS: tuple[tuple[Any, Any], ...] = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
_BY_TYPE: Mapping[int, tuple[Any, Any]] = {key.RECORD_TYPE: (key, value) for key, value in _SCHEMAS}

CONSUMER_GROUP_TYPES = frozenset(_BY_TYPE)
"""The record types that belong to consumer groups."""


class ConsumerGroupReplay:
    """Applies stored records to the groups of one shard."""

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        on_created: Callable[[str], None],
        on_member_gone: Callable[[str, str], None],
        on_deleted: Callable[[str], None],
    ) -> None:
        self._groups = groups
        self._on_created = on_created
        self._on_member_gone = on_member_gone
        self._on_deleted = on_deleted

    def apply(self, record_type: int, record: CoordinatorRecord) -> None:
        """Apply a record of one of CONSUMER_GROUP_TYPES. Raises: ProtocolError."""
        key_type, value_type = _BY_TYPE[record_type]
        key = decode_key(record.key, (key_type,))
        value = None if record.value is None else decode_versioned(value_type, record.value)[0]
        if value is not None or key.group_id in self._groups:
            _APPLIERS[key_type](self, self._group(key.group_id), key, value)

    def apply_parsed(self, parsed: Parsed) -> None:
        """Apply a record that was written here just now."""
        group = self._group(parsed.group_id)
        if type(parsed) is ParsedTarget:
            group.targets[parsed.member_id] = parsed.target
        elif type(parsed) is ParsedCurrent:
            after = parsed.member
            group.put(
                _member_of(group, after.member_id)._replace(
                    epoch=after.epoch,
                    previous_epoch=after.previous_epoch,
                    state=after.state,
                    assigned=after.assigned,
                    pending_revocation=after.pending_revocation,
                )
            )
        else:
            assert type(parsed) is ParsedRegex
            group.resolved[parsed.expression] = parsed.resolved

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if group is None:
            group = ConsumerGroup(group_id)
            self._on_created(group_id)
            self._groups[group_id] = group
        return group

    def _epoch(
        self, group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        if value is None:
            del self._groups[group.group_id]
            for member_id in group.members:
                self._on_member_gone(group.group_id, member_id)
            self._on_deleted(group.group_id)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _partition_metadata(self, group: ConsumerGroup, key: Any, value: object) -> None:
        group.has_partition_metadata_record = value is not None

    def _member(
        self, group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            group.remove(key.member_id)
            self._on_member_gone(group.group_id, key.member_id)
        else:
            group.put(with_metadata(_member_of(group, key.member_id), value))

    def _target_epoch(
        self, group: ConsumerGroup, key: Any, value: ConsumerGroupTargetAssignmentMetadataValue | None
    ) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _target(
        self,
        group: ConsumerGroup,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = target_of_value(value)

    def _current(
        self,
        group: ConsumerGroup,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group.put(with_assignment(_member_of(group, key.member_id), value))
        elif (member := group.members.get(key.member_id)) is not None:
            group.put(
                member._replace(
                    epoch=LEAVE_EPOCH,
                    previous_epoch=LEAVE_EPOCH,
                    assigned=NOTHING_ASSIGNED,
                    pending_revocation=NOTHING_ASSIGNED,
                )
            )

    def _regex(
        self,
        group: ConsumerGroup,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            group.resolved.pop(key.regular_expression, None)
        else:
            group.resolved[key.regular_expression] = resolved_of_value(value)


_APPLIERS: Mapping[Any, Callable[[ConsumerGroupReplay, ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: ConsumerGroupReplay._epoch,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupReplay._partition_metadata,
    ConsumerGroupMemberMetadataKey: ConsumerGroupReplay._member,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupReplay._target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupReplay._target,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupReplay._current,
    ConsumerGroupRegularExpressionKey: ConsumerGroupReplay._regex,
}


def _member_of(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)
