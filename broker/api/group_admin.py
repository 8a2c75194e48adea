"""ListGroups (key 16, 0 to 5), DescribeGroups (15, 0 to 6), DeleteGroups (42, 0 to 2): groups as operators see them.

- ListGroups: v4 filter by state, v5 by type; both ignore case.
- DescribeGroups: v3 authorized operations; v4 static members; v6 an unknown group is an error with a message, before
  that a group in state Dead, and so is a group of another protocol. Metadata of members only while the group is
  stable; their last assignment always.
- DeleteGroups: a group asked for twice is answered once. Deleting takes the offsets along.

Source: KafkaApis, GroupMetadataManager.describeGroups and listGroups; KIP-518, KIP-848, KIP-1043.
"""

from __future__ import annotations

from broker.api.errors import known_code
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError, GroupIdNotFound
from broker.coordinator.group.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.member import ClassicMember
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

FIRST_DESCRIBE_WITH_NOT_FOUND = 6

GROUP_AUTHORIZED_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Read, delete, describe, describe configs, alter configs: all there are, since nothing is forbidden."""


class GroupAdminApi:
    """Groups as a whole."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_GROUPS, 0, 6, self.describe_groups),
            Route(ApiKey.LIST_GROUPS, 0, 5, self.list_groups),
            Route(ApiKey.DELETE_GROUPS, 0, 2, self.delete_groups),
        )

    async def list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """List every group that passes the filters."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {name.strip().lower() for name in request.types_filter}
        try:
            listed = [
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=group.group_type,
                )
                for group in self._coordinator.groups()
                if (not states or group.state.value.lower() in states) and (not types or group.group_type in types)
            ]
        except CoordinatorError as refusal:
            return ListGroupsResponse(error_code=known_code(refusal))
        return ListGroupsResponse(groups=listed)

    async def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        """Describe groups and their members, in the order asked."""
        groups = [self._describe(group_id, context.api_version) for group_id in request.groups]
        if request.include_authorized_operations:
            for described in groups:
                if described.error_code == ErrorCode.NONE:
                    described.authorized_operations = GROUP_AUTHORIZED_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        try:
            group = self._coordinator.group(group_id)
            if not isinstance(group, ClassicGroup):
                raise GroupIdNotFound(group_id, f"Group {group_id} is not a classic group.")
        except GroupIdNotFound as missing:
            is_error = version >= FIRST_DESCRIBE_WITH_NOT_FOUND
            return DescribedGroup(
                error_code=known_code(missing) if is_error else ErrorCode.NONE,
                error_message=str(missing) if is_error else None,
                group_id=group_id,
                group_state=GroupState.DEAD.value,
            )
        except CoordinatorError as refusal:
            code = known_code(refusal)
            return DescribedGroup(error_code=code, error_message=str(refusal) or code.text, group_id=group_id)
        return _described(group)

    async def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        """Delete groups that have no members."""
        codes = await self._coordinator.delete_groups(request.groups_names)
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in codes.items()]
        )


def _described(group: ClassicGroup) -> DescribedGroup:
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[_described_member(member, protocol_name) for member in group.members.values()],
    )


def _described_member(member: ClassicMember, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
