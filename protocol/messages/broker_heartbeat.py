"""BrokerHeartbeat (key 63), versions 0 to 1, flexible throughout.

- v1: request adds offline_log_dirs.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, UUID, array


@message
class BrokerHeartbeatRequest:
    """Request of BrokerHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.BROKER_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    current_metadata_offset: int = field(INT64)
    want_fence: bool = field(BOOL)
    want_shut_down: bool = field(BOOL)
    offline_log_dirs: list[bytes] = field(array(UUID), since=1, tag=0)


@message
class BrokerHeartbeatResponse:
    """Response of BrokerHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.BROKER_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    is_caught_up: bool = field(BOOL)
    is_fenced: bool = field(BOOL, default=True)
    should_shut_down: bool = field(BOOL)
