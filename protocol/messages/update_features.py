"""UpdateFeatures (key 57), versions 0 to 2, flexible throughout.

- v1: request adds validate_only, upgrade_type and drops allow_downgrade.
- v2: response drops results.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, STRING, array


@message
class FeatureUpdateKey:
    """Struct of UpdateFeaturesRequest.feature_updates."""

    feature: str = field(STRING)
    max_version_level: int = field(INT16)
    allow_downgrade: bool = field(BOOL, until=0)
    upgrade_type: int = field(INT8, since=1, default=1)


@message
class UpdateFeaturesRequest:
    """Request of UpdateFeatures."""

    API_KEY: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    timeout_ms: int = field(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(BOOL, since=1)


@message
class UpdatableFeatureResult:
    """Struct of UpdateFeaturesResponse.results."""

    feature: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)


@message
class UpdateFeaturesResponse:
    """Response of UpdateFeatures."""

    API_KEY: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    results: list[UpdatableFeatureResult] = field(array(UpdatableFeatureResult), until=1)
