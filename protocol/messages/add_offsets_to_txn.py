"""AddOffsetsToTxn (key 25), versions 0 to 4, flexible since 3.

- v3: flexible.
- Same layout as the version before: v1, v2, v4.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING


@message
class AddOffsetsToTxnRequest:
    """Request of AddOffsetsToTxn."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 3

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


@message
class AddOffsetsToTxnResponse:
    """Response of AddOffsetsToTxn."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
