"""The commands of consumer groups: a member joins, reports, leaves, or is fenced.

Every function is one command: it checks in Kafka's order, computes what follows, and returns records and answer; the
stored state changes when the records are replayed. Deadlines are in memory and are set at once.
Source: GroupMetadataManager.consumerGroupHeartbeat, consumerGroupLeave, consumerGroupFenceMembers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from broker.coordinator.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.consumer.assigning import Assigning
from broker.coordinator.group.consumer.commands import JOIN_EPOCH, HeartbeatRequest, HeartbeatResult
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import (
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Target,
    partitions_of,
)
from broker.coordinator.group.consumer.migration import Migration
from broker.coordinator.group.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_record,
)
from broker.coordinator.group.consumer.regexes import RegexChange, Regexes
from broker.coordinator.group.consumer.timers import MemberTimers
from broker.coordinator.group.consumer.update import MemberUpdate
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.group.records import group_tombstone
from broker.coordinator.shard import CoordinatorRecord, Outcome

logger = logging.getLogger(__name__)

R = TypeVar("R")


class ConsumerGroups:
    """The consumer groups of one shard."""

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        classic_groups: dict[str, ClassicGroup],
        world: ConsumerWorld,
        timers: MemberTimers,
        regexes: Regexes,
        migration: Migration,
        assigning: Assigning,
    ) -> None:
        self.groups = groups
        self.assigning = assigning
        self._classic_groups = classic_groups
        self._world = world
        self.timers = timers
        self._regexes = regexes
        self._migration = migration

    # -- heartbeat --------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> Outcome[HeartbeatResult]:
        """Take a member's report in; the answer is what it has from now on.

        Raises: GroupIdNotFound, GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch, UnreleasedInstanceId,
        FencedInstanceId, InvalidRegularExpression.
        """
        if request.epoch < JOIN_EPOCH:
            return self._leave(request)
        records: list[CoordinatorRecord] = []
        group = self._group_for(request, records)
        self.ensure_room(group, request.member_id)
        member_id = request.member_id or self._world.new_uuid()
        old = self._member_for(group, member_id, request, records)
        update = MemberUpdate(self._world, self.timers, self.assigning, group, old, _updated(old, request), records)
        names_changed = update.write_metadata()
        regex = self._regexes.follow(group, old, update.new, records)
        update.raise_epoch(has_changed=names_changed or regex is RegexChange.RESOLVED)
        after = update.reconcile(
            update.retarget(),
            request.owned,
            has_subscription_changed=names_changed or regex is not RegexChange.NONE,
        )
        self._conclude_upgrade(group)
        settings = self._world.settings_of(group.group_id)
        self.timers.start_session(group.group_id, member_id, settings.session_timeout_ms)
        tells_assignment = request.epoch == JOIN_EPOCH or request.is_full or after.assigned != old.assigned
        return Outcome(
            HeartbeatResult(
                after.member_id,
                after.epoch,
                settings.heartbeat_interval_ms,
                partitions_of(after.assigned) if tells_assignment else None,
            ),
            records,
        )

    def _group_for(self, request: HeartbeatRequest, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """Give the group; a join makes it, also of a classic one."""
        group_id = request.group_id
        group = self.groups.get(group_id)
        if group is not None:
            return group
        classic = self._classic_groups.get(group_id)
        is_joining = request.epoch == JOIN_EPOCH
        if classic is None:
            if not is_joining:
                raise GroupIdNotFound(group_id, f"Consumer group {group_id} not found.")
            return ConsumerGroup(group_id)
        if not is_joining:
            raise GroupIdNotFound(group_id, f"Group {group_id} is not a consumer group.")
        if classic.is_empty:
            records.append(group_tombstone(group_id))
            return ConsumerGroup(group_id)
        return self._migration.upgraded(classic, records)

    def _conclude_upgrade(self, group: ConsumerGroup) -> None:
        """Tell the members of a group that is classic until now, once nothing can be refused any more."""
        classic = None if group.group_id in self.groups else self._classic_groups.get(group.group_id)
        if classic is not None and group.members:
            self._migration.tell_members(classic)
            for member in group.members.values():
                if member.classic is not None:
                    self.timers.start_session(group.group_id, member.member_id, member.classic.session_timeout_ms)

    def ensure_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Check that the group can take the member. Raises: GroupMaxSizeReached."""
        max_size = self._world.config.max_size
        if len(group.members) >= max_size and member_id not in group.members:
            raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {max_size} members.")

    def _member_for(
        self, group: ConsumerGroup, member_id: str, request: HeartbeatRequest, records: list[CoordinatorRecord]
    ) -> ConsumerMember:
        is_joining = request.epoch == JOIN_EPOCH
        if request.instance_id is not None:
            if is_joining:
                return self.static_joiner(group, member_id, request.instance_id, records, is_classic=False)
            member = self.static_holder(group, member_id, request.instance_id)
        elif is_joining:
            return group.members.get(member_id) or new_member(group, member_id)
        else:
            member = group.member(member_id)
        if not is_joining:
            _ensure_epoch(member, request.epoch, request.owned)
        return member

    # -- static members ---------------------------------------------------------------------------------------------

    def static_joiner(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        records: list[CoordinatorRecord],
        *,
        is_classic: bool,
    ) -> ConsumerMember:
        """Give a member that joins with an instance id the place of its predecessor, if that has let go of it.

        Raises: UnreleasedInstanceId.
        """
        holder = group.static_member(instance_id)
        if holder is None:
            return group.members.get(member_id) or new_member(group, member_id)
        if not is_classic and holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {holder.member_id} member."
            )
        joiner = holder._replace(member_id=member_id, epoch=0, previous_epoch=0)
        group_id = group.group_id
        records.extend(member_tombstones(group_id, holder.member_id))
        records.append(member_record(group_id, joiner))
        records.append(target_record(group_id, member_id, group.target_of(holder)))
        records.append(current_record(group_id, joiner))
        logger.info(
            "static member replaced group=%s instance=%s old=%s new=%s",
            group_id, instance_id, holder.member_id, member_id,
        )  # fmt: skip
        return joiner

    def static_holder(self, group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        """Give the static member that reports. Raises: UnknownMemberId, FencedInstanceId."""
        holder = group.static_member(instance_id)
        if holder is None:
            raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
        if holder.member_id != member_id:
            raise FencedInstanceId(
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}."
            )
        return holder

    # -- going away -------------------------------------------------------------------------------------------------

    def _leave(self, request: HeartbeatRequest) -> Outcome[HeartbeatResult]:
        group = self.existing(request.group_id)
        result = HeartbeatResult(request.member_id, request.epoch)
        if request.instance_id is None:
            return self.fence(group, [group.member(request.member_id)], "it left", result)
        member = self.static_holder(group, request.member_id, request.instance_id)
        if request.epoch != STATIC_LEAVE_EPOCH:
            return self.fence(group, [member], "it left", result)
        logger.info("static member left for a while group=%s member=%s", group.group_id, member.member_id)
        return Outcome(result, [current_record(group.group_id, member.left_for_a_while())])

    def existing(self, group_id: str) -> ConsumerGroup:
        """Give a consumer group. Raises: GroupIdNotFound."""
        group = self.groups.get(group_id)
        if group is None:
            is_classic = group_id in self._classic_groups
            raise GroupIdNotFound(group_id, f"Group {group_id} is not a consumer group." if is_classic else None)
        return group

    def fence(self, group: ConsumerGroup, members: Sequence[ConsumerMember], reason: str, response: R) -> Outcome[R]:
        """Remove members; a group that keeps classic members only becomes a classic one."""
        if not members:
            return Outcome(response)
        group_id = group.group_id
        for member in members:
            logger.info("member removed group=%s member=%s reason=%s", group_id, member.member_id, reason)
        if self._migration.can_downgrade(group, members):
            records, on_written = self._migration.downgraded(group, members)
            return Outcome(response, records, on_written, replays=False)
        records = [record for member in members for record in member_tombstones(group_id, member.member_id)]
        unused = group.regexes.copy()
        unused.subtract(member.topic_regex for member in members if member.topic_regex)
        records.extend(
            regex_tombstone(group_id, expression)
            for expression, count in unused.items()
            if not count and group.regexes[expression]
        )
        topics = group.subscribed_topics(without=members)
        metadata_hash = self._world.hashes.of_topics(topics, self._world.image())
        records.append(epoch_record(group_id, group.epoch + 1, metadata_hash))
        self._world.stats.rebalances["consumer"] += 1
        return Outcome(response, records)

    def fence_by_id(self, group_id: str, member_id: str, reason: str, epoch: int | None) -> Outcome[None]:
        """Remove a member whose deadline has passed, if it is still there and, when that matters, in that epoch."""
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            self.timers.drop(group_id, member_id)
            return Outcome(None)
        if epoch is not None and member.epoch != epoch:
            return Outcome(None)
        return self.fence(group, [member], reason, None)

    # -- lifecycle --------------------------------------------------------------------------------------------------

    def on_loaded(self) -> None:
        """Give every stored member a session, and those that have to give something back their time for it."""
        for group in self.groups.values():
            session_ms = self._world.settings_of(group.group_id).session_timeout_ms
            for member in group.members.values():
                self.timers.start_session(group.group_id, member.member_id, session_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self.timers.start_rebalance(group.group_id, member)

    def on_topics_changed(self, names: frozenset[str]) -> None:
        """Have groups that read one of these topics look at them anew with their next heartbeat."""
        for group in self.groups.values():
            if any(group.is_subscribed_to(name) for name in names):
                group.refreshed_epoch = None


def new_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Log that somebody joins, by whichever protocol, and give them a place without anything in it."""
    logger.info("member joins group=%s member=%s", group.group_id, member_id)
    return ConsumerMember(member_id)


def _ensure_epoch(member: ConsumerMember, epoch: int, owned: Target | None) -> None:
    """Raise FencedMemberEpoch unless the member is in that epoch, or has lost the answer that told it the next one."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.previous_epoch and member.owns_all(owned):
        return
    order = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {order} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _updated(member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    """Return the member as its report says it is; what is not said stays."""

    def said(value: R | None, known: R) -> R:
        return known if value is None else value

    return member._replace(
        instance_id=said(request.instance_id, member.instance_id),
        rack_id=said(request.rack_id, member.rack_id),
        rebalance_timeout_ms=said(request.rebalance_timeout_ms, member.rebalance_timeout_ms),
        server_assignor=said(request.server_assignor, member.server_assignor),
        topic_names=said(request.topic_names, member.topic_names),
        topic_regex=said(request.topic_regex, member.topic_regex),
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )
