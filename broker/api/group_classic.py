"""JoinGroup (key 11, 0 to 9), SyncGroup (14, 0 to 5), Heartbeat (12, 0 to 4), LeaveGroup (13, 0 to 5).

- JoinGroup: v1 a rebalance timeout of its own; v4 a member without an id is given one first; v5 static members; v7
  nullable protocol; v8 a reason; v9 the leader may be told to skip assignment.
- SyncGroup: v3 static members; v5 protocol type and name are mandatory and checked.
- Heartbeat: v3 static members. LeaveGroup: v3 many members, each with its own error; v5 a reason.
- Difference from the reference: a JoinGroup creates the offsets topic when it is missing, instead of NOT_COORDINATOR.

JoinGroup and SyncGroup park; when their connection ends meanwhile, the member stays until its session runs out.
Source: KafkaApis, GroupCoordinatorService; KIP-345, KIP-394, KIP-559, KIP-800, KIP-814.
"""

from __future__ import annotations

from broker.api.errors import known_code
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError
from broker.coordinator.group.commands import JoinRequest, JoinResult, LeavingMember, Protocols, SyncRequest
from broker.coordinator.group.coordinator import GroupCoordinator
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_JOIN_WITH_REBALANCE_TIMEOUT = 1
FIRST_JOIN_WITH_REQUIRED_ID = 4
FIRST_JOIN_WITH_NULL_PROTOCOL = 7
FIRST_JOIN_WITH_SKIPPED_ASSIGNMENT = 9
FIRST_SYNC_WITH_PROTOCOL = 5
FIRST_LEAVE_WITH_MEMBERS = 3


class GroupClassicApi:
    """Membership of classic groups."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.JOIN_GROUP, 0, 9, self.join_group),
            Route(ApiKey.SYNC_GROUP, 0, 5, self.sync_group),
            Route(ApiKey.HEARTBEAT, 0, 4, self.heartbeat),
            Route(ApiKey.LEAVE_GROUP, 0, 5, self.leave_group),
        )

    async def join_group(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        """Take a member into the next generation of its group."""
        try:
            result = await self._coordinator.join(_join_request(request, context))
        except CoordinatorError as refusal:
            result = JoinResult(known_code(refusal), request.member_id)
        return _join_response(result, context.api_version)

    async def sync_group(self, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
        """Give a member its assignment."""
        if context.api_version >= FIRST_SYNC_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        sync = SyncRequest(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={entry.member_id: entry.assignment for entry in request.assignments},
        )
        try:
            result = await self._coordinator.sync(sync)
        except CoordinatorError as refusal:
            return SyncGroupResponse(error_code=known_code(refusal))
        return SyncGroupResponse(
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol_name,
            assignment=result.assignment,
        )

    async def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """Keep a member alive."""
        try:
            code = await self._coordinator.heartbeat(
                request.group_id, request.member_id, request.group_instance_id, request.generation_id
            )
        except CoordinatorError as refusal:
            code = known_code(refusal)
        return HeartbeatResponse(error_code=code)

    async def leave_group(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """Remove members."""
        is_batched = context.api_version >= FIRST_LEAVE_WITH_MEMBERS
        if is_batched:
            leaving = [LeavingMember(m.member_id, m.group_instance_id, m.reason) for m in request.members]
        else:
            leaving = [LeavingMember(request.member_id)]
        try:
            results = await self._coordinator.leave(request.group_id, leaving)
        except CoordinatorError as refusal:
            return LeaveGroupResponse(error_code=known_code(refusal))
        if not is_batched:
            return LeaveGroupResponse(error_code=results[0].error)
        return LeaveGroupResponse(
            members=[
                MemberResponse(
                    member_id=result.member_id, group_instance_id=result.group_instance_id, error_code=result.error
                )
                for result in results
            ]
        )


def _join_request(request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    version = context.api_version
    has_own_timeout = version >= FIRST_JOIN_WITH_REBALANCE_TIMEOUT
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_own_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=_protocols(request),
        reason=request.reason or "not provided",
        requires_known_member_id=version >= FIRST_JOIN_WITH_REQUIRED_ID,
        supports_skipping_assignment=version >= FIRST_JOIN_WITH_SKIPPED_ASSIGNMENT,
    )


def _protocols(request: JoinGroupRequest) -> Protocols:
    """Give the protocols in the member's order, each name once."""
    return tuple({protocol.name: protocol.metadata for protocol in reversed(request.protocols)}.items())[::-1]


def _join_response(result: JoinResult, version: int) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and version < FIRST_JOIN_WITH_NULL_PROTOCOL:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
