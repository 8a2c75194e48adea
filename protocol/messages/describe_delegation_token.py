"""DescribeDelegationToken (key 41), versions 1 to 3, flexible since 2.

- v2: flexible.
- v3: response adds token_requester_principal_type, token_requester_principal_name.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT16, INT32, INT64, STRING, array


@message
class DescribeDelegationTokenOwner:
    """Struct of DescribeDelegationTokenRequest.owners."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


@message
class DescribeDelegationTokenRequest:
    """Request of DescribeDelegationToken."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_DELEGATION_TOKEN
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    owners: list[DescribeDelegationTokenOwner] | None = field(array(DescribeDelegationTokenOwner), nullable=True)


@message
class DescribedDelegationTokenRenewer:
    """Struct of DescribedDelegationToken.renewers."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


@message
class DescribedDelegationToken:
    """Struct of DescribeDelegationTokenResponse.tokens."""

    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3)
    token_requester_principal_name: str = field(STRING, since=3)
    issue_timestamp: int = field(INT64)
    expiry_timestamp: int = field(INT64)
    max_timestamp: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    renewers: list[DescribedDelegationTokenRenewer] = field(array(DescribedDelegationTokenRenewer))


@message
class DescribeDelegationTokenResponse:
    """Response of DescribeDelegationToken."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_DELEGATION_TOKEN
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    error_code: int = field(INT16)
    tokens: list[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
