"""The next step of a member towards its target; a pure function.

The rule that makes rebalances safe: a partition is given to its new owner only after the old one has reported it gone
(or left, or was fenced). So a member first gives back what its target no longer holds and stays in its epoch until it
reports a smaller ownership; then it enters the target's epoch and gets what is free; what is not free yet it gets by
later heartbeats.
Source: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

from broker.coordinator.errors import FencedMemberEpoch
from broker.coordinator.group.consumer.member import (
    NOTHING_ASSIGNED,
    Assigned,
    ConsumerMember,
    MemberState,
    Target,
)

FREE = -1
"""The epoch of a partition that nobody owns."""


class Goal(NamedTuple):
    """What a member is led to."""

    epoch: int
    target: Target
    subscribed_topic_ids: Set[bytes]
    """Nothing else is assigned, whatever an older target says."""
    has_subscription_changed: bool = False


def reconciled(
    member: ConsumerMember, goal: Goal, owned: Target | None, partition_epoch: Callable[[bytes, int], int]
) -> ConsumerMember:
    """Return the member after its next step, or the same one when there is none to be made now.

    `owned` is what the member reports, None when this heartbeat says nothing about it; `partition_epoch` gives the
    epoch of a partition's present owner. Raises: FencedMemberEpoch for a state of a later release.
    """
    if member.state is MemberState.STABLE:
        if member.epoch != goal.epoch:
            return _next_step(member, goal, owned, partition_epoch)
        return _unsubscribed(member, goal, owned) if goal.has_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, member.pending_revocation):
        return _unsubscribed(member, goal, owned) if goal.has_subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise FencedMemberEpoch(
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        member = member._replace(epoch=goal.epoch)
    return _next_step(member, goal, owned, partition_epoch)


def _still_owns(owned: Target | None, revoked: Assigned) -> bool:
    if owned is None:
        return True
    return any(topic_id in revoked and not revoked[topic_id].keys().isdisjoint(owned[topic_id]) for topic_id in owned)


def _unsubscribed(member: ConsumerMember, goal: Goal, owned: Target | None) -> ConsumerMember:
    """Take away what a member no longer subscribes to, without waiting for the next target."""
    gone = {topic_id for topic_id in member.assigned if topic_id not in goal.subscribed_topic_ids}
    if not gone:
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in gone}
    revoked = dict(member.pending_revocation)
    for topic_id in gone:
        revoked[topic_id] = {**revoked.get(topic_id, {}), **member.assigned[topic_id]}
    if _still_owns(owned, revoked):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    return member.moved_to(member.epoch, member.state, kept, member.pending_revocation)


def _next_step(
    member: ConsumerMember, goal: Goal, owned: Target | None, partition_epoch: Callable[[bytes, int], int]
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    free: dict[bytes, list[int]] = {}
    has_unreleased = False
    for topic_id in sorted({*goal.target, *member.assigned}):
        wanted = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed_topic_ids else frozenset()
        current = member.assigned.get(topic_id, {})
        if still := {p: epoch for p, epoch in current.items() if p in wanted}:
            kept[topic_id] = still
        if surplus := {p: epoch for p, epoch in current.items() if p not in wanted}:
            revoked[topic_id] = surplus
        own = member.pending_revocation.get(topic_id, {})
        for partition in sorted(wanted.difference(current)):
            if partition_epoch(topic_id, partition) == FREE or partition in own:
                free.setdefault(topic_id, []).append(partition)
            else:
                has_unreleased = True
    if revoked and _still_owns(owned, revoked):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, partitions in free.items():
        gained = {**kept.get(topic_id, {}), **dict.fromkeys(partitions, goal.epoch)}
        kept[topic_id] = dict(sorted(gained.items()))
    state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
    return member.moved_to(goal.epoch, state, dict(sorted(kept.items())), NOTHING_ASSIGNED)
