"""A group with members changes its protocol while they live: classic to consumer and back.

Up, by the first member that joins with the new protocol: the generation becomes the epoch, every member stays with its
assignment and goes on in the classic protocol; whoever is parked is told to join again.
Down, when the last member of the new protocol leaves (or a classic one takes its static place): the epoch becomes the
generation, and the members rebalance among themselves.
Source: ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup, GroupMetadataManager.convertTo....
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from broker.coordinator.errors import GroupIdNotFound
from broker.coordinator.group.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.commands import JoinRequest, JoinResult, SyncResult
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ClassicFacts, ConsumerMember, Target, with_epoch
from broker.coordinator.group.consumer.records import group_tombstones, whole_group
from broker.coordinator.group.consumer.timers import MemberTimers
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.rebalance import Rebalancer
from broker.coordinator.group.records import group_metadata_record, group_tombstone
from broker.coordinator.group.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    assignment_bytes,
    parse_assignment,
    parse_subscription,
)
from broker.coordinator.shard import CoordinatorRecord, WrittenCallback
from protocol.errors import ErrorCode, ProtocolError

logger = logging.getLogger(__name__)


class Migration:
    """Converts the groups of one shard."""

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        classic_groups: dict[str, ClassicGroup],
        world: ConsumerWorld,
        timers: MemberTimers,
        rebalancer: Rebalancer,
    ) -> None:
        self._groups = groups
        self._classic_groups = classic_groups
        self._world = world
        self._timers = timers
        self._rebalancer = rebalancer

    # -- up ---------------------------------------------------------------------------------------------------------

    def upgraded(self, classic: ClassicGroup, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """Return a classic group as a consumer group, with the records of that. Raises: GroupIdNotFound."""
        group_id, config = classic.group_id, self._world.config

        def refusal(reason: str) -> GroupIdNotFound:
            return GroupIdNotFound(
                group_id, f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
            )

        if not config.allows_upgrade:
            raise refusal("online upgrade is disabled")
        if not classic.uses_consumer_protocol:
            raise refusal("the group does not use the consumer embedded protocol")
        if len(classic.members) > config.max_size:
            raise refusal("the group size exceeds the consumer group maximum size")
        group = ConsumerGroup(group_id)
        group.epoch = group.assignment_epoch = classic.generation_id
        for member in classic.members.values():
            try:
                converted, target, has_user_data = self._consumer_member(classic, member)
            except ProtocolError:
                raise refusal("the embedded consumer protocol is malformed") from None
            if has_user_data:
                raise GroupIdNotFound(
                    group_id,
                    f"Cannot upgrade classic group {group_id} to consumer group because an unsupported custom assignor "
                    "is in use. Please refer to the documentation or switch to a default assignor before "
                    "re-attempting the upgrade.",
                )
            group.targets[converted.member_id] = target
            group.put(converted)
        group.metadata_hash = self._world.hashes.of_topics(group.named_topics, self._world.image())
        records.append(group_tombstone(group_id))
        records.extend(whole_group(group))
        logger.info("classic group becomes a consumer group group=%s members=%d", group_id, len(group.members))
        return group

    def tell_members(self, classic: ClassicGroup) -> None:
        """Send whoever is parked in a classic group that is being converted to join again."""
        for member in classic.members.values():
            classic.complete_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            classic.complete_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def _consumer_member(self, classic: ClassicGroup, member: ClassicMember) -> tuple[ConsumerMember, Target, bool]:
        """Convert a member; tell whether its assignor had sent data that would be lost. Raises: ProtocolError."""
        known = self._world.image().topics_by_name
        target: dict[bytes, frozenset[int]] = {}
        has_user_data = False
        if member.assignment:
            assignment = parse_assignment(member.assignment)
            has_user_data = bool(assignment.user_data)
            for part in assignment.assigned_partitions:
                if part.topic in known:
                    target[known[part.topic].topic_id] = frozenset(part.partitions)
        subscription = parse_subscription(member.metadata(_protocol_of(classic, member)))
        generation = classic.generation_id
        converted = ConsumerMember(
            member.member_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            classic=ClassicFacts(member.session_timeout_ms, member.protocols),
            epoch=generation,
            previous_epoch=generation,
            assigned=with_epoch(target, generation),
        )
        return converted, target, has_user_data

    # -- down -------------------------------------------------------------------------------------------------------

    def can_downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], *, joining: int = 0) -> bool:
        """Tell whether a group that loses these members (and is joined by so many classic ones) is to be classic."""
        left = len(group.members) - len(leaving) + joining
        if left <= 0 or not group.would_be_all_classic_without(leaving):
            return False
        if not self._world.config.allows_downgrade:
            logger.info("consumer group stays one: online downgrade is disabled group=%s", group.group_id)
            return False
        if left > self._world.classic_max_size:
            logger.info("consumer group stays one: it is over group.max.size group=%s", group.group_id)
            return False
        return True

    def downgraded(
        self,
        group: ConsumerGroup,
        leaving: Iterable[ConsumerMember],
        joiner: ConsumerMember | None = None,
        *,
        rebalances: bool = True,
    ) -> tuple[list[CoordinatorRecord], WrittenCallback]:
        """Return the records of a consumer group's becoming classic, and what makes it so once they are written.

        `joiner` takes the place of the static member it shares its instance id with.
        """
        gone = {member.member_id for member in leaving}
        replaced = None if joiner is None else group.static_member(joiner.instance_id)
        renamed = None if joiner is None or replaced is None else (replaced.member_id, joiner.member_id)
        if replaced is not None:
            gone.add(replaced.member_id)
        targets = {m.member_id: group.target_of(m) for m in group.members.values() if m.member_id not in gone}
        staying = [group.members[member_id] for member_id in targets]
        if joiner is not None:
            staying.append(joiner)
            targets[joiner.member_id] = group.target_of(joiner)
        classic = self._classic_group(group, staying, targets)
        records = [*group_tombstones(group, renamed), group_metadata_record(classic)]

        def conclude(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                return
            del self._groups[group.group_id]
            for member_id in group.members:
                self._timers.drop(group.group_id, member_id)
            self._classic_groups[group.group_id] = classic
            for member in classic.members.values():
                member.refresh_session()
            logger.info("consumer group becomes a classic group group=%s members=%d", group.group_id, len(staying))
            if rebalances:
                self._rebalancer.prepare_rebalance(classic, "the group has become a classic one")

        return records, conclude

    def _classic_group(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], targets: dict[str, Target]
    ) -> ClassicGroup:
        classic = self._rebalancer.new_group(group.group_id)
        classic.generation_id = group.epoch
        classic.protocol_type = CONSUMER_PROTOCOL_TYPE
        for member in members:
            assert member.classic is not None
            request = JoinRequest(
                group_id=group.group_id,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.classic.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=member.classic.protocols,
            )
            session = self._rebalancer.session_timer(group.group_id, member.member_id)
            classic.add(ClassicMember(member.member_id, request, session), None)
        classic.state = GroupState.STABLE
        classic.protocol_name = classic.select_protocol()
        classic.subscribed_topics = classic.compute_subscribed_topics()
        topics = self._world.image().topics_by_id
        for one in classic.members.values():
            assigned = {topics[t].name: sorted(ps) for t, ps in targets[one.member_id].items() if t in topics}
            one.assignment = assignment_bytes(assigned, like=one.metadata(classic.protocol_name))
        return classic


def _protocol_of(classic: ClassicGroup, member: ClassicMember) -> str | None:
    """Name the protocol whose metadata tell the subscription; before its first generation a group has chosen none."""
    return classic.protocol_name or (member.protocols[0][0] if member.protocols else None)
