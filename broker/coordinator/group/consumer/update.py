"""One member's change, step by step, with the records it takes.

1. The member's metadata are written when they changed.
2. The group's epoch rises when a subscription changed, or the topics did.
3. A newer epoch than the target's asks for a new target, unless the last one was made just now: members of one
   application come in a burst, and one assignment for all of them is better than one for each (KIP-1263).
4. The member makes its next step towards the target.

Heartbeats go through all of it, joins of classic members too.
Source: GroupMetadataManager.consumerGroupHeartbeat and what it calls; TargetAssignmentBuilder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from broker.coordinator.group.consumer.assigning import Assigning, Job
from broker.coordinator.group.consumer.assignor import AssigneeSpec
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import NO_TARGET, ConsumerMember, MemberState, Target
from broker.coordinator.group.consumer.reconcile import Goal, reconciled
from broker.coordinator.group.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    partition_metadata_tombstone,
)
from broker.coordinator.group.consumer.timers import MemberTimers
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.shard import CoordinatorRecord

logger = logging.getLogger(__name__)


class MemberUpdate:
    """A member of a group on its way from `old` to `new`."""

    def __init__(
        self,
        world: ConsumerWorld,
        timers: MemberTimers,
        assigning: Assigning,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> None:
        self._world = world
        self._timers = timers
        self._assigning = assigning
        self._group = group
        self.old = old
        self.new = new
        self.records = records
        self.epoch = group.epoch

    def write_metadata(self) -> bool:
        """Write what the member asks for, if that changed; tell whether the names of its topics did."""
        if self.new == self.old:
            return False
        self.records.append(member_record(self._group.group_id, self.new))
        return self.new.topic_names != self.old.topic_names

    def raise_epoch(self, *, has_changed: bool) -> None:
        """Raise the group's epoch when its subscriptions changed, or the topics have."""
        group = self._group
        if not has_changed and not group.may_have_new_metadata:
            return
        metadata_hash = self._world.hashes.of_topics(
            group.subscribed_topics((self.old,), self.new), self._world.image()
        )
        if has_changed or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self._world.stats.rebalances["consumer"] += 1
            self.records.append(epoch_record(group.group_id, self.epoch, metadata_hash))
            logger.info("consumer group epoch raised group=%s epoch=%d", group.group_id, self.epoch)
        group.refreshed_epoch = self.epoch
        if group.has_partition_metadata_record:
            self.records.append(partition_metadata_tombstone(group.group_id))

    def retarget(self) -> tuple[int, Target]:
        """Give the epoch and the target the member is to converge to, made anew for the whole group if need be."""
        group = self._group
        if (
            group.assignment_epoch >= self.epoch
            or not self._may_assign_now()
            or self._assigning.is_running(group.group_id)
        ):
            return group.assignment_epoch, group.target_of(self.new)
        targets = self._assigning.now(self._job(), self.records)
        if targets is None:
            return group.assignment_epoch, group.target_of(self.new)
        return self.epoch, targets[self.new.member_id]

    def _job(self) -> Job:
        group, topics = self._group, self._world.image().topics_by_id
        name = group.preferred_assignor(self.old, self.new, self._world.config.assignors[0])
        specs = list(self._specs())
        subscribed = frozenset().union(*{spec.topic_ids for spec in specs})
        counts = {topic_id: len(topics[topic_id].partitions) for topic_id in subscribed}
        return Job(group.group_id, self.epoch, name, specs, counts)

    def reconcile(
        self, assignment: tuple[int, Target], owned: Target | None, *, has_subscription_changed: bool
    ) -> ConsumerMember:
        """Make the member's next step."""
        group, new = self._group, self.new
        epoch, target = assignment
        if not has_subscription_changed and new.is_reconciled_to(epoch):
            return new
        subscribed = group.topic_ids_of(new, self._world.image())
        goal = Goal(epoch, target, subscribed, has_subscription_changed)
        after = reconciled(new, goal, owned, group.partition_epoch)
        if after == new:
            return new
        self.records.append(current_record(group.group_id, after))
        if after.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._timers.start_rebalance(group.group_id, after)
            else:
                self._timers.end_rebalance(group.group_id, after.member_id)
        return after

    def _may_assign_now(self) -> bool:
        since_ms = self._group.assignment_timestamp_ms
        interval_ms = self._world.settings_of(self._group.group_id).assignment_interval_ms
        # A clock that was set back must not hold assignments up.
        return not since_ms or not 0 <= self._world.now_ms() - since_ms < interval_ms

    def _specs(self) -> Iterator[AssigneeSpec]:
        """Give the members as they will be: this one in its new form, and not the one whose place it takes."""
        group, new, image = self._group, self.new, self._world.image()
        replaced = None if new.instance_id is None else group.static_members.get(new.instance_id)
        known: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}

        def spec(member: ConsumerMember, previous: Target) -> AssigneeSpec:
            has_target = member.member_id in group.targets
            subscription = member.topic_names, member.topic_regex
            topic_ids = known.get(subscription)
            if topic_ids is None:
                topic_ids = known[subscription] = group.topic_ids_of(member, image)
            return AssigneeSpec(member.member_id, member.instance_id, topic_ids, previous, has_target)

        for member in group.members.values():
            if member.member_id not in (new.member_id, replaced):
                yield spec(member, group.targets.get(member.member_id, NO_TARGET))
        yield spec(new, group.target_of(new))
