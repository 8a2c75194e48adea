"""Heartbeat (key 12), versions 0 to 4, flexible since 4.

- v1: response adds throttle_time_ms.
- v3: request adds group_instance_id.
- v4: flexible.
- Same layout as the version before: v2.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING


@message
class HeartbeatRequest:
    """Request of Heartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=True, default=None)


@message
class HeartbeatResponse:
    """Response of Heartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
