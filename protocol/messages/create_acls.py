"""CreateAcls (key 30), versions 1 to 3, flexible since 2.

- v2: flexible.
- Same layout as the version before: v3.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class AclCreation:
    """Struct of CreateAclsRequest.creations."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message
class CreateAclsRequest:
    """Request of CreateAcls."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    creations: list[AclCreation] = field(array(AclCreation))


@message
class AclCreationResult:
    """Struct of CreateAclsResponse.results."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)


@message
class CreateAclsResponse:
    """Response of CreateAcls."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    results: list[AclCreationResult] = field(array(AclCreationResult))
