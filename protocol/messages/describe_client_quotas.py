"""DescribeClientQuotas (key 48), versions 0 to 1, flexible since 1.

- v1: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, FLOAT64, INT8, INT16, INT32, STRING, array


@message
class ComponentData:
    """Struct of DescribeClientQuotasRequest.components."""

    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable=True)


@message
class DescribeClientQuotasRequest:
    """Request of DescribeClientQuotas."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    components: list[ComponentData] = field(array(ComponentData))
    strict: bool = field(BOOL)


@message
class EntityData:
    """Struct of EntryData.entity."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=True)


@message
class ValueData:
    """Struct of EntryData.values."""

    key: str = field(STRING)
    value: float = field(FLOAT64)


@message
class EntryData:
    """Struct of DescribeClientQuotasResponse.entries."""

    entity: list[EntityData] = field(array(EntityData))
    values: list[ValueData] = field(array(ValueData))


@message
class DescribeClientQuotasResponse:
    """Response of DescribeClientQuotas."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    entries: list[EntryData] | None = field(array(EntryData), nullable=True)
