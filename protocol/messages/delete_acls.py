"""DeleteAcls (key 31), versions 1 to 3, flexible since 2.

- v2: flexible.
- Same layout as the version before: v3.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class DeleteAclsFilter:
    """Struct of DeleteAclsRequest.filters."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable=True)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable=True)
    host_filter: str | None = field(STRING, nullable=True)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class DeleteAclsRequest:
    """Request of DeleteAcls."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    filters: list[DeleteAclsFilter] = field(array(DeleteAclsFilter))


@message
class DeleteAclsMatchingAcl:
    """Struct of DeleteAclsFilterResult.matching_acls."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class DeleteAclsFilterResult:
    """Struct of DeleteAclsResponse.filter_results."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    matching_acls: list[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


@message
class DeleteAclsResponse:
    """Response of DeleteAcls."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    filter_results: list[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))
