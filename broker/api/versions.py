"""ApiVersions (key 18). Served: 0 to 4.

- v1 throttle time; v3 flexible body, client software name and version, feature tags; v4 features whose minimum is 0.
- The response header is always version 0, and a version we do not know is answered in the v0 layout: both are the
  dispatcher's doing, since they must work without reading more than the head of the request.
- The table is what the handler table serves, in ascending order; it does not depend on who asks.
- Features: see `broker/metadata/controller/features.py` for why so few are finalized.

Source: ApiVersionsResponse, KIP-35, KIP-511, KIP-584, KIP-1022.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from broker.api.route import RequestContext, Route
from broker.metadata.controller.features import SUPPORTED_FEATURES, finalized_features
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_SOFTWARE_NAME = 3
FIRST_VERSION_WITH_ZERO_MINIMUM = 4
"""Older Java clients cannot read a supported feature whose lowest level is 0."""

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class VersionsApi:
    """Tells clients what we serve."""

    def __init__(self, table: Callable[[], Mapping[ApiKey, Route]], image: Callable[[], ClusterImage]) -> None:
        self._table = table
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.API_VERSIONS, 0, 4, self.api_versions),)

    async def api_versions(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        """List the served APIs and features."""
        version = context.api_version
        if version >= FIRST_VERSION_WITH_SOFTWARE_NAME and not _names_software(request):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if version >= FIRST_VERSION_WITH_SOFTWARE_NAME:
            context.software_name, context.software_version = (
                request.client_software_name,
                request.client_software_version,
            )
        image = self._image()
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=route.min_version, max_version=route.max_version)
                for key, route in sorted(self._table().items())
            ],
            supported_features=[
                SupportedFeatureKey(name=feature.name, min_version=feature.min_level, max_version=feature.max_level)
                for feature in SUPPORTED_FEATURES
                if feature.min_level > 0 or version >= FIRST_VERSION_WITH_ZERO_MINIMUM
            ],
            finalized_features_epoch=max(0, image.features_epoch),
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in finalized_features(image)
            ],
        )


def _names_software(request: ApiVersionsRequest) -> bool:
    return bool(
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    )
