"""Join, sync, heartbeat and leave: what the members of classic groups ask of a shard.

Every function is one command: it checks in Kafka's order, changes the group, answers through the reply (at once or when
the group gets there) and returns the records of the change. Nobody else runs until those are written.
Source: GroupMetadataManager.classicGroupJoin, -Sync, -Heartbeat, -Leave; KIP-345, KIP-394, KIP-559, KIP-814.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from broker.coordinator.errors import CoordinatorError, IllegalGeneration, UnknownMemberId
from broker.coordinator.group.classic_group import ClassicGroup, GroupState
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
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer, joined, synced
from broker.coordinator.group.records import group_metadata_record
from broker.coordinator.shard import Outcome
from broker.coordinator.stats import GroupStats
from config.views import GroupConfig
from protocol.errors import ErrorCode
from protocol.primitives import MAX_STRING_BYTES

logger = logging.getLogger(__name__)


class ClassicGroups:
    """The membership commands of one shard."""

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        config: GroupConfig,
        rebalancer: Rebalancer,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        stats: GroupStats,
        error_code: Callable[[BaseException], ErrorCode],
    ) -> None:
        self._error_code = error_code
        self._stats = stats
        self._groups = groups
        self._config = config
        self._rebalancer = rebalancer
        self._now_ms = now_ms
        self._new_uuid = new_uuid

    # -- join -------------------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        """Take a member into the next generation."""
        member_id = request.member_id
        group = self._groups.get(request.group_id)
        if group is None:
            if member_id:
                return _refuse(reply, ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            group = self._rebalancer.new_group(request.group_id)
        if not self._has_room(group, member_id):
            group.remove(member_id)
            return _refuse(reply, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        if group.state is GroupState.DEAD:
            return _refuse(reply, ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        if not group.supports_protocols(request.protocol_type, request.protocols):
            return _refuse(reply, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        # A group comes into being with the first request that is not refused.
        self._groups[request.group_id] = group
        if not member_id:
            return self._join_without_id(group, request, reply)
        if member_id in group.pending_members and request.group_instance_id is None:
            return self._add_member(group, member_id, request, reply)
        return self._rejoin(group, request, reply)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        if group.state is GroupState.PREPARING_REBALANCE:
            # Parked members count, not all members: if the bound was lowered, the last to rejoin have to go.
            member = group.members.get(member_id)
            is_parked = member is not None and member.awaiting_join is not None
            return is_parked or group.awaiting_join_count < self._config.max_size
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member_id in group.members or len(group.members) < self._config.max_size
        return True

    def _join_without_id(self, group: ClassicGroup, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        instance_id = request.group_instance_id
        member_id = _member_id(request.client_id if instance_id is None else instance_id, self._new_uuid())
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is not None:
                return self._take_over(group, group.members[old_id], member_id, request, reply)
            return self._add_member(group, member_id, request, reply)
        if not request.requires_known_member_id:
            return self._add_member(group, member_id, request, reply)
        timer = self._rebalancer.session_timer(group.group_id, member_id)
        timer.start(request.session_timeout_ms)
        group.add_pending(member_id, timer)
        return _refuse(reply, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add_member(self, group: ClassicGroup, member_id: str, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        member = ClassicMember(member_id, request, self._rebalancer.session_timer(group.group_id, member_id))
        member.is_new = True
        if group.initial_delay is not None:
            group.has_new_member = True
        group.add(member, reply)
        member.session.start(NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalancer.maybe_prepare_rebalance(
            group, f"adding new member {member_id}; client reason: {request.reason}"
        )

    def _rejoin(self, group: ClassicGroup, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        try:
            member = group.ensure_member(request.member_id, request.group_instance_id)
        except CoordinatorError as refusal:
            return _refuse(reply, self._error_code(refusal), request.member_id)
        if group.is_empty:
            return _refuse(reply, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        has_same_metadata = member.protocols == request.protocols
        is_leader = group.leader_id == member.member_id
        # With unchanged metadata, in CompletingRebalance the first answer was lost, and in Stable a follower just asks.
        # The leader's rejoin in Stable is its way to ask for a new assignment.
        if has_same_metadata and (
            group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not is_leader)
        ):
            reply(joined(group, member))
            return Outcome(None)
        group.update_member(member, request, reply)
        return self._rebalancer.maybe_prepare_rebalance(
            group, f"member {member.member_id} rejoined in {group.state.value}; client reason: {request.reason}"
        )

    # -- static takeover --------------------------------------------------------------------------------------------

    def _take_over(
        self, group: ClassicGroup, old: ClassicMember, member_id: str, request: JoinRequest, reply: JoinReply
    ) -> Outcome[None]:
        previous_leader = group.leader_id or ""
        member = ClassicMember(member_id, request, self._rebalancer.session_timer(group.group_id, member_id))
        member.assignment = old.assignment
        group.replace_static_member(old.member_id, member)
        member.refresh_session()
        group.park_join(member, reply)
        logger.info(
            "static member replaced group=%s instance=%s old=%s new=%s",
            group.group_id, request.group_instance_id, old.member_id, member_id,
        )  # fmt: skip
        reason = f"static member {member_id} took over in {group.state.value}; client reason: {request.reason}"
        if group.state is GroupState.STABLE:
            if group.select_protocol() != group.protocol_name:
                return self._rebalancer.maybe_prepare_rebalance(group, reason)
            return self._persist_take_over(group, old, member, request, previous_leader)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may already have assigned to the old id, so this generation cannot be saved.
            return self._rebalancer.prepare_rebalance(group, reason)
        return self._rebalancer.maybe_complete_join(group)

    def _persist_take_over(
        self,
        group: ClassicGroup,
        old: ClassicMember,
        member: ClassicMember,
        request: JoinRequest,
        previous_leader: str,
    ) -> Outcome[None]:
        def conclude(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                group.complete_join(member, JoinResult(code, ""))
                group.replace_static_member(member.member_id, old)
                old.refresh_session()
            elif request.supports_skipping_assignment:
                is_leader = group.leader_id == member.member_id
                group.complete_join(member, joined(group, member, skip_assignment=is_leader))
            else:
                # Named by its old id, a restarted leader does not take itself for the leader and assigns nothing.
                group.complete_join(member, replace_leader(joined(group, member), previous_leader))

        return Outcome(None, (group_metadata_record(group),), conclude, replays=False)

    # -- sync -------------------------------------------------------------------------------------------------------

    def sync(self, request: SyncRequest, reply: SyncReply) -> Outcome[None]:
        """Give a member its assignment, as soon as the leader has sent it."""
        group = self._groups.get(request.group_id)
        if group is None or group.is_empty:
            reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            return Outcome(None)
        try:
            member = self._member_for_sync(group, request)
        except CoordinatorError as refusal:
            reply(SyncResult(self._error_code(refusal)))
            return Outcome(None)
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
            reply(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif group.state is GroupState.PREPARING_REBALANCE:
            reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif group.state is GroupState.STABLE:
            self._rebalancer.note_synced(group, member.member_id)
            reply(synced(group, member))
        else:
            group.park_sync(member, reply)
            self._rebalancer.note_synced(group, member.member_id)
            if group.leader_id == member.member_id:
                return self._store_assignment(group, request)
        return Outcome(None)

    def _member_for_sync(self, group: ClassicGroup, request: SyncRequest) -> ClassicMember:
        member = group.ensure_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise IllegalGeneration
        return member

    def _store_assignment(self, group: ClassicGroup, request: SyncRequest) -> Outcome[None]:
        assignments = {member_id: request.assignments.get(member_id, b"") for member_id in group.members}

        def conclude(code: ErrorCode) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != request.generation_id:
                return
            if code is not ErrorCode.NONE:
                self._rebalancer.abandon_assignment(group, code)
                self._rebalancer.prepare_rebalance(group, f"error {code.name} when storing the group assignment")
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
            group.transition_to(GroupState.STABLE, now_ms=self._now_ms())
            self._stats.rebalances["classic"] += 1
            self._rebalancer.propagate_assignment(group)

        return Outcome(None, (group_metadata_record(group, assignments),), conclude, replays=False)

    # -- heartbeat --------------------------------------------------------------------------------------------------

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Outcome[ErrorCode]:
        """Keep a member's session alive and tell whether it has to rejoin.

        Raises: UnknownMemberId, FencedInstanceId, IllegalGeneration.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise UnknownMemberId
        member = group.ensure_member(member_id, group_instance_id)
        if generation_id != group.generation_id:
            raise IllegalGeneration
        member.refresh_session()
        if group.state is GroupState.PREPARING_REBALANCE:
            return Outcome(ErrorCode.REBALANCE_IN_PROGRESS)
        return Outcome(ErrorCode.NONE)

    # -- leave ------------------------------------------------------------------------------------------------------

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Outcome[list[LeaveResult]]:
        """Remove members at their own wish or an administrator's; each has its own result."""
        group = self._groups.get(group_id)
        if group is None:
            return Outcome([_left(entry, ErrorCode.UNKNOWN_MEMBER_ID) for entry in leaving])
        results = [_left(entry, self._leave_one(group, entry)) for entry in leaving]
        left = [r.member_id or str(r.group_instance_id) for r in results if r.error is ErrorCode.NONE]
        after: Outcome[None] = Outcome(None)
        if left:
            after = self._after_leave(group, f"explicit LeaveGroup of {','.join(left)}")
        return Outcome(results, after.records, after.on_written, replays=False)

    def _leave_one(self, group: ClassicGroup, entry: LeavingMember) -> ErrorCode:
        member_id = entry.member_id
        if not member_id:
            held_by = group.static_members.get(entry.group_instance_id or "")
            if held_by is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = held_by
        elif member_id not in group.pending_members:
            try:
                group.ensure_member(member_id, entry.group_instance_id)
            except CoordinatorError as refusal:
                return self._error_code(refusal)
        reason = entry.reason or "not provided"
        logger.info("member left group=%s member=%s reason=%s", group.group_id, member_id, reason)
        group.remove(member_id)
        return ErrorCode.NONE

    def _after_leave(self, group: ClassicGroup, reason: str) -> Outcome[None]:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._rebalancer.maybe_prepare_rebalance(group, reason)
        return self._rebalancer.maybe_complete_join(group)


def replace_leader(result: JoinResult, leader: str) -> JoinResult:
    """Name another leader, and then no members, for a static member of an old client."""
    return result._replace(leader=leader, members=())


def _member_id(prefix: str, uuid: str) -> str:
    """Name a member; of a very long client or instance id only so much is taken as a string can carry."""
    room = MAX_STRING_BYTES - len(uuid) - 1
    if len(prefix) * 3 > room:
        prefix = prefix.encode()[:room].decode(errors="ignore")
    return f"{prefix}-{uuid}"


def _refuse(reply: JoinReply, error: ErrorCode, member_id: str) -> Outcome[None]:
    reply(JoinResult(error, member_id))
    return Outcome(None)


def _differs(claimed: str | None, actual: str | None) -> bool:
    return claimed is not None and actual is not None and claimed != actual


def _left(entry: LeavingMember, error: ErrorCode) -> LeaveResult:
    return LeaveResult(entry.member_id, entry.group_instance_id, error)
