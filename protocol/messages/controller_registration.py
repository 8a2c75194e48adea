"""ControllerRegistration (key 70), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, UINT16, UUID, array


@message
class Listener:
    """Struct of ControllerRegistrationRequest.listeners."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)
    security_protocol: int = field(INT16)


@message
class Feature:
    """Struct of ControllerRegistrationRequest.features."""

    name: str = field(STRING)
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


@message
class ControllerRegistrationRequest:
    """Request of ControllerRegistration."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CONTROLLER_REGISTRATION
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    controller_id: int = field(INT32)
    incarnation_id: bytes = field(UUID)
    zk_migration_ready: bool = field(BOOL)
    listeners: list[Listener] = field(array(Listener))
    features: list[Feature] = field(array(Feature))


@message
class ControllerRegistrationResponse:
    """Response of ControllerRegistration."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CONTROLLER_REGISTRATION
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
