"""UnregisterBroker (key 64), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING


@message
class UnregisterBrokerRequest:
    """Request of UnregisterBroker."""

    API_KEY: ClassVar[ApiKey] = ApiKey.UNREGISTER_BROKER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)


@message
class UnregisterBrokerResponse:
    """Response of UnregisterBroker."""

    API_KEY: ClassVar[ApiKey] = ApiKey.UNREGISTER_BROKER
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
