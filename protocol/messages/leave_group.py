"""LeaveGroup (key 13), versions 0 to 5, flexible since 4.

- v1: response adds throttle_time_ms.
- v3: request adds members and drops member_id; response adds members.
- v4: flexible.
- v5: request adds reason.
- Same layout as the version before: v2.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, array


@message
class MemberIdentity:
    """Struct of LeaveGroupRequest.members."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=True, default=None)
    reason: str | None = field(STRING, since=5, nullable=True, default=None)


@message
class LeaveGroupRequest:
    """Request of LeaveGroup."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 4

    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: list[MemberIdentity] = field(array(MemberIdentity), since=3)


@message
class MemberResponse:
    """Struct of LeaveGroupResponse.members."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=True)
    error_code: int = field(INT16)


@message
class LeaveGroupResponse:
    """Response of LeaveGroup."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    members: list[MemberResponse] = field(array(MemberResponse), since=3)
