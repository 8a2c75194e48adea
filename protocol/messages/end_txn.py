"""EndTxn (key 26), versions 0 to 5, flexible since 3.

- v3: flexible.
- v5: response adds producer_id, producer_epoch.
- Same layout as the version before: v1, v2, v4.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING


@message
class EndTxnRequest:
    """Request of EndTxn."""

    API_KEY: ClassVar[ApiKey] = ApiKey.END_TXN
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


@message
class EndTxnResponse:
    """Response of EndTxn."""

    API_KEY: ClassVar[ApiKey] = ApiKey.END_TXN
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, since=5, default=-1)
    producer_epoch: int = field(INT16, since=5, default=-1)
