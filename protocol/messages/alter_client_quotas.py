"""AlterClientQuotas (key 49), versions 0 to 1, flexible since 1.

- v1: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, FLOAT64, INT16, INT32, STRING, array


@message
class RequestEntityData:
    """Struct of RequestEntryData.entity."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=True)


@message
class OpData:
    """Struct of RequestEntryData.ops."""

    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


@message
class RequestEntryData:
    """Struct of AlterClientQuotasRequest.entries."""

    entity: list[RequestEntityData] = field(array(RequestEntityData))
    ops: list[OpData] = field(array(OpData))


@message
class AlterClientQuotasRequest:
    """Request of AlterClientQuotas."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    entries: list[RequestEntryData] = field(array(RequestEntryData))
    validate_only: bool = field(BOOL)


@message
class ResponseEntityData:
    """Struct of ResponseEntryData.entity."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=True)


@message
class ResponseEntryData:
    """Struct of AlterClientQuotasResponse.entries."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    entity: list[ResponseEntityData] = field(array(ResponseEntityData))


@message
class AlterClientQuotasResponse:
    """Response of AlterClientQuotas."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    throttle_time_ms: int = field(INT32)
    entries: list[ResponseEntryData] = field(array(ResponseEntryData))
