"""SyncGroup (key 14), versions 0 to 5, flexible since 4.

- v1: response adds throttle_time_ms.
- v3: request adds group_instance_id.
- v4: flexible.
- v5: request adds protocol_type, protocol_name; response adds protocol_type, protocol_name.
- Same layout as the version before: v2.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT16, INT32, STRING, array


@message
class SyncGroupRequestAssignment:
    """Struct of SyncGroupRequest.assignments."""

    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@message
class SyncGroupRequest:
    """Request of SyncGroup."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 4

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=True, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable=True, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=True, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


@message
class SyncGroupResponse:
    """Response of SyncGroup."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SYNC_GROUP
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable=True, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=True, default=None)
    assignment: bytes = field(BYTES)
