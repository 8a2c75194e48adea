"""DeleteGroups (key 42), versions 0 to 2, flexible since 2.

- v2: flexible.
- Same layout as the version before: v1.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, array


@message
class DeleteGroupsRequest:
    """Request of DeleteGroups."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    groups_names: list[str] = field(array(STRING))


@message
class DeletableGroupResult:
    """Struct of DeleteGroupsResponse.results."""

    group_id: str = field(STRING)
    error_code: int = field(INT16)


@message
class DeleteGroupsResponse:
    """Response of DeleteGroups."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field(array(DeletableGroupResult))
