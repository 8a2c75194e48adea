"""Members of the classic protocol in a consumer group: their requests, translated.

They join, sync and heartbeat as ever, but nobody leads: an answer to JoinGroup names no leader and comes at once, the
member's epoch is its generation, and SyncGroup gives it what it has, in the form its assignor would have sent. What a
heartbeat of the new protocol says about ownership they say in their subscription when they join again, which they are
told to (27) whenever there is a step to be made.
Source: GroupMetadataManager.classicGroupJoinToConsumerGroup, -SyncTo-, -HeartbeatTo-, -LeaveTo-.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordinator.errors import (
    CoordinatorError,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)
from broker.coordinator.group.commands import (
    JoinReply,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.heartbeat import ConsumerGroups, new_member
from broker.coordinator.group.consumer.member import ClassicFacts, ConsumerMember, MemberState, Target
from broker.coordinator.group.consumer.migration import Migration
from broker.coordinator.group.consumer.regexes import RegexChange, Regexes
from broker.coordinator.group.consumer.update import MemberUpdate
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE, assignment_bytes, parse_subscription
from broker.coordinator.shard import CoordinatorRecord, Outcome
from protocol.errors import ErrorCode, ProtocolError
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription


class ClassicMembers:
    """The classic requests to the consumer groups of one shard."""

    def __init__(self, consumers: ConsumerGroups, world: ConsumerWorld, regexes: Regexes, migration: Migration) -> None:
        self._consumers = consumers
        self._world = world
        self._error_code = world.error_code
        self._regexes = regexes
        self._migration = migration

    # -- join -------------------------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        """Take a member in, or let it make its next step."""
        try:
            return self._join(group, request, reply)
        except CoordinatorError as refusal:
            reply(JoinResult(self._error_code(refusal), request.member_id))
            return Outcome(None)

    def _join(self, group: ConsumerGroup, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        config = self._world.config
        if not config.allows_upgrade and not config.allows_downgrade:
            raise InconsistentGroupProtocol
        member_id = request.member_id or self._world.new_uuid()
        self._consumers.ensure_room(group, member_id)
        if not group.supports_classic(request.protocol_type, (name for name, _ in request.protocols)):
            raise InconsistentGroupProtocol
        instance_id = request.group_instance_id
        if not request.member_id and instance_id is None and request.requires_known_member_id:
            reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return Outcome(None)
        subscription = _subscription_of(request)
        records: list[CoordinatorRecord] = []
        if instance_id is None:
            old = group.members.get(member_id) or new_member(group, member_id)
        elif not request.member_id:
            old = self._consumers.static_joiner(group, member_id, instance_id, records, is_classic=True)
        else:
            old = self._consumers.static_holder(group, member_id, instance_id)
        update = MemberUpdate(
            self._world,
            self._consumers.timers,
            self._consumers.assigning,
            group,
            old,
            _updated(old, request, subscription),
            records,
        )
        names_changed = update.write_metadata()
        has_changed = self._regexes.follow(group, old, update.new, records) is not RegexChange.NONE or names_changed
        update.raise_epoch(has_changed=has_changed)
        owned = self._owned(subscription)
        replaced = group.static_member(instance_id)
        if (
            replaced is not None
            and replaced.classic is None
            and self._migration.can_downgrade(group, [replaced], joining=1)
        ):
            return self._join_last_classic(group, update, owned, request, reply, has_changed=has_changed)
        after = update.reconcile(update.retarget(), owned, has_subscription_changed=has_changed)

        def conclude(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                reply(JoinResult(code, request.member_id))
                return
            timers = self._consumers.timers
            timers.start_session(group.group_id, member_id, request.session_timeout_ms)
            timers.start_sync(group.group_id, member_id, request.rebalance_timeout_ms)
            reply(_joined(after))

        return Outcome(None, records, conclude)

    def _join_last_classic(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        owned: Target | None,
        request: JoinRequest,
        reply: JoinReply,
        *,
        has_changed: bool,
    ) -> Outcome[None]:
        """Take over the static place of the last member of the new protocol: the group becomes a classic one."""
        is_stale = group.assignment_epoch < update.epoch
        after = update.new
        if not is_stale:
            assignment = group.assignment_epoch, group.target_of(update.new)
            after = update.reconcile(assignment, owned, has_subscription_changed=has_changed)
        converted, become_classic = self._migration.downgraded(group, (), after, rebalances=is_stale)

        def conclude(code: ErrorCode) -> None:
            become_classic(code)
            reply(_joined(after) if code is ErrorCode.NONE else JoinResult(code, request.member_id))

        return Outcome(None, [*update.records, *converted], conclude, replays=False)

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Target:
        known = self._world.image().topics_by_name
        return {
            known[part.topic].topic_id: frozenset(part.partitions)
            for part in subscription.owned_partitions
            if part.topic in known
        }

    # -- sync -------------------------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncRequest, reply: SyncReply) -> Outcome[None]:
        """Give a member what it has."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
            reply(self._synced(group, member, request))
        except CoordinatorError as refusal:
            reply(SyncResult(self._error_code(refusal)))
        return Outcome(None)

    def _synced(self, group: ConsumerGroup, member: ConsumerMember, request: SyncRequest) -> SyncResult:
        assert member.classic is not None
        timers, group_id = self._consumers.timers, group.group_id
        name, metadata = member.classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise InconsistentGroupProtocol
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.start_join_if_none(group_id, member)
            raise RebalanceInProgress
        timers.end_sync(group_id, member.member_id)
        timers.start_session(group_id, member.member_id, member.classic.session_timeout_ms)
        topics = self._world.image().topics_by_id
        assigned = {topics[t].name: sorted(epochs) for t, epochs in member.assigned.items() if t in topics}
        return SyncResult(
            ErrorCode.NONE, request.protocol_type, request.protocol_name, assignment_bytes(assigned, like=metadata)
        )

    # -- heartbeat --------------------------------------------------------------------------------------------------

    def heartbeat(
        self, group: ConsumerGroup, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Outcome[ErrorCode]:
        """Keep a member's session alive and tell whether it has to rejoin.

        Raises: UnknownMemberId, FencedInstanceId, IllegalGeneration.
        """
        member = self._member(group, member_id, group_instance_id, generation_id)
        assert member.classic is not None
        timers = self._consumers.timers
        timers.start_session(group.group_id, member_id, member.classic.session_timeout_ms)
        has_a_step_to_make = (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        )
        if not has_a_step_to_make:
            return Outcome(ErrorCode.NONE)
        timers.start_join_if_none(group.group_id, member)
        return Outcome(ErrorCode.REBALANCE_IN_PROGRESS)

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = self._consumers.static_holder(group, member_id, instance_id)
        if member.classic is None:
            raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
        if member.epoch != generation_id:
            raise IllegalGeneration
        return member

    # -- leave ------------------------------------------------------------------------------------------------------

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> Outcome[list[LeaveResult]]:
        """Remove members at their own wish or an administrator's; each has its own result."""
        results: list[LeaveResult] = []
        members: dict[str, ConsumerMember] = {}
        for entry in leaving:
            code = ErrorCode.NONE
            try:
                member = self._leaving(group, entry)
                members[member.member_id] = member
            except CoordinatorError as refusal:
                code = self._error_code(refusal)
            results.append(LeaveResult(entry.member_id, entry.group_instance_id, code))
        return self._consumers.fence(group, list(members.values()), "it left", results)

    def _leaving(self, group: ConsumerGroup, entry: LeavingMember) -> ConsumerMember:
        if entry.group_instance_id is None:
            return group.member(entry.member_id)
        holder = group.static_member(entry.group_instance_id)
        if holder is None:
            raise UnknownMemberId
        if entry.member_id and holder.member_id != entry.member_id:
            raise FencedInstanceId
        return holder


def _subscription_of(request: JoinRequest) -> ConsumerProtocolSubscription:
    """Read the subscription, which is the same for all protocols. Raises: InconsistentGroupProtocol."""
    try:
        return parse_subscription(request.protocols[0][1])
    except ProtocolError:
        raise InconsistentGroupProtocol from None


def _updated(
    member: ConsumerMember, request: JoinRequest, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    has_timeout = request.rebalance_timeout_ms != -1
    return member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicFacts(request.session_timeout_ms, request.protocols),
    )


def _joined(member: ConsumerMember) -> JoinResult:
    assert member.classic is not None
    return JoinResult(
        ErrorCode.NONE, member.member_id, member.epoch, CONSUMER_PROTOCOL_TYPE, member.classic.protocols[0][0]
    )
