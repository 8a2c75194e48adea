"""AlterConfigs (key 33), versions 0 to 2, flexible since 2.

- v2: flexible.
- Same layout as the version before: v1.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, STRING, array


@message
class AlterableConfig:
    """Struct of AlterConfigsResource.configs."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=True)


@message
class AlterConfigsResource:
    """Struct of AlterConfigsRequest.resources."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


@message
class AlterConfigsRequest:
    """Request of AlterConfigs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


@message
class AlterConfigsResourceResponse:
    """Struct of AlterConfigsResponse.responses."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


@message
class AlterConfigsResponse:
    """Response of AlterConfigs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
