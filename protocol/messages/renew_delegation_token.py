"""RenewDelegationToken (key 39), versions 1 to 2, flexible since 2.

- v2: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT16, INT32, INT64


@message
class RenewDelegationTokenRequest:
    """Request of RenewDelegationToken."""

    API_KEY: ClassVar[ApiKey] = ApiKey.RENEW_DELEGATION_TOKEN
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    hmac: bytes = field(BYTES)
    renew_period_ms: int = field(INT64)


@message
class RenewDelegationTokenResponse:
    """Response of RenewDelegationToken."""

    API_KEY: ClassVar[ApiKey] = ApiKey.RENEW_DELEGATION_TOKEN
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
