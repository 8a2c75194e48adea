"""SaslHandshake (key 17), versions 0 to 1, never flexible.

- Same layout as the version before: v1.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import INT16, STRING, array


@message
class SaslHandshakeRequest:
    """Request of SaslHandshake."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    mechanism: str = field(STRING)


@message
class SaslHandshakeResponse:
    """Response of SaslHandshake."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    error_code: int = field(INT16)
    mechanisms: list[str] = field(array(STRING))
