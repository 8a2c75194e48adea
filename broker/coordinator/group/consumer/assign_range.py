"""The range assignor: each topic cut into even ranges, handed out in one order of the members.

Partitions of equal numbers of equally subscribed topics come to one member, which joins of streams rely on. Static
members come first, by instance id, so that a restart under a new member id changes nothing.
Source: RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.coordinator.group.consumer.assignor import AssigneeSpec
from broker.coordinator.group.consumer.member import Target


def assign_range(members: Sequence[AssigneeSpec], partition_counts: Mapping[bytes, int]) -> dict[str, Target]:
    """Assign every topic by itself."""
    ordered = sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or "", m.member_id))
    subscribers: dict[bytes, list[str]] = {}
    for member in ordered:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    targets: dict[str, dict[bytes, frozenset[int]]] = {}
    for topic_id in sorted(subscribers):
        member_ids = subscribers[topic_id]
        quota, extra = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + quota + (index < extra)
            if end == start:
                break
            targets.setdefault(member_id, {})[topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)
