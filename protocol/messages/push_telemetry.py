"""PushTelemetry (key 72), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, BYTES, INT8, INT16, INT32, UUID


@message
class PushTelemetryRequest:
    """Request of PushTelemetry."""

    API_KEY: ClassVar[ApiKey] = ApiKey.PUSH_TELEMETRY
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    client_instance_id: bytes = field(UUID)
    subscription_id: int = field(INT32)
    terminating: bool = field(BOOL)
    compression_type: int = field(INT8)
    metrics: bytes = field(BYTES)


@message
class PushTelemetryResponse:
    """Response of PushTelemetry."""

    API_KEY: ClassVar[ApiKey] = ApiKey.PUSH_TELEMETRY
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
