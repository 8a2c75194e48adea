"""DescribeGroups (key 15), versions 0 to 6, flexible since 5.

- v1: response adds throttle_time_ms.
- v3: request adds include_authorized_operations; response adds authorized_operations.
- v4: response adds group_instance_id.
- v5: flexible.
- v6: response adds error_message.
- Same layout as the version before: v2.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, BYTES, INT16, INT32, STRING, array


@message
class DescribeGroupsRequest:
    """Request of DescribeGroups."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 5

    groups: list[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL, since=3)


@message
class DescribedGroupMember:
    """Struct of DescribedGroup.members."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=4, nullable=True, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


@message
class DescribedGroup:
    """Struct of DescribeGroupsResponse.groups."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=6, nullable=True, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int = field(INT32, since=3, default=-0x80000000)


@message
class DescribeGroupsResponse:
    """Response of DescribeGroups."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 5

    throttle_time_ms: int = field(INT32, since=1)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
