"""JoinGroup (key 11), versions 0 to 9, flexible since 6.

- v1: request adds rebalance_timeout_ms.
- v2: response adds throttle_time_ms.
- v5: request adds group_instance_id; response adds group_instance_id.
- v6: flexible.
- v7: response adds protocol_type and allows null for protocol_name.
- v8: request adds reason.
- v9: response adds skip_assignment.
- Same layout as the version before: v3, v4.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, BYTES, INT16, INT32, STRING, array


@message
class JoinGroupRequestProtocol:
    """Struct of JoinGroupRequest.protocols."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@message
class JoinGroupRequest:
    """Request of JoinGroup."""

    API_KEY: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_SINCE: ClassVar[int] = 6

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=True, default=None)
    protocol_type: str = field(STRING)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, since=8, nullable=True, default=None)


@message
class JoinGroupResponseMember:
    """Struct of JoinGroupResponse.members."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=True, default=None)
    metadata: bytes = field(BYTES)


@message
class JoinGroupResponse:
    """Response of JoinGroup."""

    API_KEY: ClassVar[ApiKey] = ApiKey.JOIN_GROUP
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_SINCE: ClassVar[int] = 6

    throttle_time_ms: int = field(INT32, since=2)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable=True, default=None)
    protocol_name: str | None = field(STRING, nullable_since=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))
