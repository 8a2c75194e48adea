"""When committed offsets and the groups around them have outlived their use; pure decisions.

Retention counts from the moment a group became empty, or from the commit itself for groups that only keep offsets and,
in a stable consumer group, for topics nobody subscribes to any more. Groups of the new consumer protocol do not know
since when they are empty: for them it counts from the commit. A commit with its own expiry (v2 to v4) goes by that. All
of this is wall-clock time, since it must outlast a restart.
Source: ClassicGroup.offsetExpirationCondition, OffsetExpirationConditionImpl; KIP-211.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinator.group.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.records import NO_TIMESTAMP, CommittedOffset, OffsetKey


def may_expire_offsets(group: ClassicGroup | ConsumerGroup) -> bool:
    """Tell whether the group is in a state in which anything of it can expire."""
    if isinstance(group, ConsumerGroup):
        return True
    if group.protocol_type is None or group.is_empty:
        return True
    return group.uses_consumer_protocol and group.subscribed_topics is not None and group.state is GroupState.STABLE


def is_offset_expired(
    group: ClassicGroup | ConsumerGroup, committed: CommittedOffset, *, now_ms: int, retention_ms: int
) -> bool:
    """Tell whether one commit of such a group has outlived its retention."""
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.is_empty:
        since_ms = committed.commit_timestamp_ms if group.state_timestamp_ms is None else group.state_timestamp_ms
    return now_ms - since_ms >= retention_ms


def expired_offsets(
    group: ClassicGroup | ConsumerGroup, offsets: GroupOffsets, *, now_ms: int, retention_ms: int
) -> Iterator[OffsetKey]:
    """Give every commit of a group that has expired; never one of a subscribed topic or of an open transaction."""
    if not may_expire_offsets(group):
        return
    for topic, partitions in offsets.of_group(group.group_id).items():
        if group.is_subscribed_to(topic) and not group.is_empty:
            continue
        for partition, committed in partitions.items():
            if is_offset_expired(group, committed, now_ms=now_ms, retention_ms=retention_ms):
                key = OffsetKey(group.group_id, topic, partition)
                if not offsets.is_pending(key):
                    yield key
