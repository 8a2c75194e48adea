"""FindCoordinator (key 10), versions 0 to 6, flexible since 3.

- v1: request adds key_type; response adds throttle_time_ms, error_message.
- v3: flexible.
- v4: request adds coordinator_keys and drops key; response adds coordinators and drops error_code, error_message,
  node_id, host, port.
- Same layout as the version before: v2, v5, v6.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class FindCoordinatorRequest:
    """Request of FindCoordinator."""

    API_KEY: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 3

    key: str = field(STRING, until=3)
    key_type: int = field(INT8, since=1)
    coordinator_keys: list[str] = field(array(STRING), since=4)


@message
class Coordinator:
    """Struct of FindCoordinatorResponse.coordinators."""

    key: str = field(STRING)
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)


@message
class FindCoordinatorResponse:
    """Response of FindCoordinator."""

    API_KEY: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16, until=3)
    error_message: str | None = field(STRING, since=1, until=3, nullable=True)
    node_id: int = field(INT32, until=3)
    host: str = field(STRING, until=3)
    port: int = field(INT32, until=3)
    coordinators: list[Coordinator] = field(array(Coordinator), since=4)
