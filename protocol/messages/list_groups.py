"""ListGroups (key 16), versions 0 to 5, flexible since 3.

- v1: response adds throttle_time_ms.
- v3: flexible.
- v4: request adds states_filter; response adds group_state.
- v5: request adds types_filter; response adds group_type.
- Same layout as the version before: v2.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, array


@message
class ListGroupsRequest:
    """Request of ListGroups."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    states_filter: list[str] = field(array(STRING), since=4)
    types_filter: list[str] = field(array(STRING), since=5)


@message
class ListedGroup:
    """Struct of ListGroupsResponse.groups."""

    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4)
    group_type: str = field(STRING, since=5)


@message
class ListGroupsResponse:
    """Response of ListGroups."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(array(ListedGroup))
