"""DescribeConfigs (key 32), versions 1 to 4, flexible since 4.

- v3: request adds include_documentation; response adds config_type, documentation.
- v4: flexible.
- Same layout as the version before: v2.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, STRING, array


@message
class DescribeConfigsResource:
    """Struct of DescribeConfigsRequest.resources."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field(array(STRING), nullable=True)


@message
class DescribeConfigsRequest:
    """Request of DescribeConfigs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL)
    include_documentation: bool = field(BOOL, since=3)


@message
class DescribeConfigsSynonym:
    """Struct of DescribeConfigsResourceResult.synonyms."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=True)
    source: int = field(INT8)


@message
class DescribeConfigsResourceResult:
    """Struct of DescribeConfigsResult.configs."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=True)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field(array(DescribeConfigsSynonym))
    config_type: int = field(INT8, since=3)
    documentation: str | None = field(STRING, since=3, nullable=True)


@message
class DescribeConfigsResult:
    """Struct of DescribeConfigsResponse.results."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


@message
class DescribeConfigsResponse:
    """Response of DescribeConfigs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field(array(DescribeConfigsResult))
