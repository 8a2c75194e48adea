"""CreateDelegationToken (key 38), versions 1 to 3, flexible since 2.

- v2: flexible.
- v3: request adds owner_principal_type, owner_principal_name; response adds token_requester_principal_type,
  token_requester_principal_name.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT16, INT32, INT64, STRING, array


@message
class CreatableRenewers:
    """Struct of CreateDelegationTokenRequest.renewers."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


@message
class CreateDelegationTokenRequest:
    """Request of CreateDelegationToken."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_DELEGATION_TOKEN
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    owner_principal_type: str | None = field(STRING, since=3, nullable=True)
    owner_principal_name: str | None = field(STRING, since=3, nullable=True)
    renewers: list[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(INT64)


@message
class CreateDelegationTokenResponse:
    """Response of CreateDelegationToken."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_DELEGATION_TOKEN
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    error_code: int = field(INT16)
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3)
    token_requester_principal_name: str = field(STRING, since=3)
    issue_timestamp_ms: int = field(INT64)
    expiry_timestamp_ms: int = field(INT64)
    max_timestamp_ms: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    throttle_time_ms: int = field(INT32)
