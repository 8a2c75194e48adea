"""The range assignor: each topic cut into even ranges, handed out in one order of the members.

Partitions of equal numbers of equally subscribed topics come to one member, which joins of streams rely on. Static
members come first, by instance id, so that a restart under a new member id changes nothing.
Source: RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.coordinator.group.consumer.assignor import AssigneeSpec, Subscriptions
from broker.coordinator.group.consumer.member import Target


def assign_range(members: Sequence[AssigneeSpec], partition_counts: Mapping[bytes, int]) -> dict[str, Target]:
    """Assign every topic by itself."""
    ordered = sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or "", m.member_id))
    targets: dict[str, dict[bytes, frozenset[int]]] = {}
    # Topics with the same subscribers and as many partitions are cut alike.
    cuts: dict[tuple[tuple[int, ...], int], list[tuple[str, frozenset[int]]]] = {}
    subscriptions = Subscriptions(ordered)
    for topic_id in sorted(subscriptions.by_topic):
        shape = subscriptions.by_topic[topic_id], partition_counts[topic_id]
        cut = cuts.get(shape)
        if cut is None:
            cut = cuts[shape] = _cut([ordered[index].member_id for index in subscriptions.members(shape[0])], shape[1])
        for member_id, share in cut:
            targets.setdefault(member_id, {})[topic_id] = share
    return dict(targets)


def _cut(member_ids: Sequence[str], partition_count: int) -> list[tuple[str, frozenset[int]]]:
    quota, extra = divmod(partition_count, len(member_ids))
    shares: list[tuple[str, frozenset[int]]] = []
    start = 0
    for index, member_id in enumerate(member_ids):
        end = start + quota + (index < extra)
        if end == start:
            break
        shares.append((member_id, frozenset(range(start, end))))
        start = end
    return shares
