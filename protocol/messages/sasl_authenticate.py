"""SaslAuthenticate (key 36), versions 0 to 2, flexible since 2.

- v1: response adds session_lifetime_ms.
- v2: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT16, INT64, STRING


@message
class SaslAuthenticateRequest:
    """Request of SaslAuthenticate."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    auth_bytes: bytes = field(BYTES)


@message
class SaslAuthenticateResponse:
    """Response of SaslAuthenticate."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1)
