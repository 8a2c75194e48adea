"""ListConfigResources (key 74), versions 0 to 1, flexible throughout.

- v1: request adds resource_types; response adds resource_type.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class ListConfigResourcesRequest:
    """Request of ListConfigResources."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    resource_types: list[int] = field(array(INT8), since=1)


@message
class ConfigResource:
    """Struct of ListConfigResourcesResponse.config_resources."""

    resource_name: str = field(STRING)
    resource_type: int = field(INT8, since=1, default=16)


@message
class ListConfigResourcesResponse:
    """Response of ListConfigResources."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    config_resources: list[ConfigResource] = field(array(ConfigResource))
