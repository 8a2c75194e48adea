"""Envelope (key 58), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BYTES, INT16


@message
class EnvelopeRequest:
    """Request of Envelope."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ENVELOPE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    request_data: bytes = field(BYTES)
    request_principal: bytes | None = field(BYTES, nullable=True)
    client_host_address: bytes = field(BYTES)


@message
class EnvelopeResponse:
    """Response of Envelope."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ENVELOPE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    response_data: bytes | None = field(BYTES, nullable=True, default=None)
    error_code: int = field(INT16)
