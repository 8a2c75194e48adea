"""BrokerRegistration (key 62), versions 0 to 4, flexible throughout.

- v1: request adds is_migrating_zk_broker.
- v2: request adds log_dirs.
- v3: request adds previous_broker_epoch.
- Same layout as the version before: v4.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, array


@message
class Listener:
    """Struct of BrokerRegistrationRequest.listeners."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)
    security_protocol: int = field(INT16)


@message
class Feature:
    """Struct of BrokerRegistrationRequest.features."""

    name: str = field(STRING)
    min_supported_version: int = field(INT16)
    max_supported_version: int = field(INT16)


@message
class BrokerRegistrationRequest:
    """Request of BrokerRegistration."""

    API_KEY: ClassVar[ApiKey] = ApiKey.BROKER_REGISTRATION
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    cluster_id: str = field(STRING)
    incarnation_id: bytes = field(UUID)
    listeners: list[Listener] = field(array(Listener))
    features: list[Feature] = field(array(Feature))
    rack: str | None = field(STRING, nullable=True)
    is_migrating_zk_broker: bool = field(BOOL, since=1)
    log_dirs: list[bytes] = field(array(UUID), since=2)
    previous_broker_epoch: int = field(INT64, since=3, default=-1)


@message
class BrokerRegistrationResponse:
    """Response of BrokerRegistration."""

    API_KEY: ClassVar[ApiKey] = ApiKey.BROKER_REGISTRATION
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    broker_epoch: int = field(INT64, default=-1)
