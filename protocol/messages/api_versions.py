"""ApiVersions (key 18), versions 0 to 4, flexible since 3.

- v1: response adds throttle_time_ms.
- v3: request adds client_software_name, client_software_version; response adds supported_features,
  finalized_features_epoch, finalized_features, zk_migration_ready; flexible.
- Same layout as the version before: v2, v4.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, array


@message
class ApiVersionsRequest:
    """Request of ApiVersions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 3

    client_software_name: str = field(STRING, since=3)
    client_software_version: str = field(STRING, since=3)


@message
class ApiVersion:
    """Struct of ApiVersionsResponse.api_keys."""

    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@message
class SupportedFeatureKey:
    """Struct of ApiVersionsResponse.supported_features."""

    name: str = field(STRING)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@message
class FinalizedFeatureKey:
    """Struct of ApiVersionsResponse.finalized_features."""

    name: str = field(STRING)
    max_version_level: int = field(INT16)
    min_version_level: int = field(INT16)


@message
class ApiVersionsResponse:
    """Response of ApiVersions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 3

    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = field(array(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int = field(INT64, since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(array(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = field(BOOL, since=3, tag=3)
