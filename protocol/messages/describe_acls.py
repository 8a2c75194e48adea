"""DescribeAcls (key 29), versions 1 to 3, flexible since 2.

- v2: flexible.
- Same layout as the version before: v3.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class DescribeAclsRequest:
    """Request of DescribeAcls."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable=True)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable=True)
    host_filter: str | None = field(STRING, nullable=True)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class AclDescription:
    """Struct of DescribeAclsResource.acls."""

    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class DescribeAclsResource:
    """Struct of DescribeAclsResponse.resources."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    acls: list[AclDescription] = field(array(AclDescription))


@message
class DescribeAclsResponse:
    """Response of DescribeAcls."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))
