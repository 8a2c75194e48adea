"""InitProducerId (key 22), versions 0 to 6, flexible since 2.

- v2: flexible.
- v3: request adds producer_id, producer_epoch.
- v6: request adds enable2_pc, keep_prepared_txn; response adds ongoing_txn_producer_id, ongoing_txn_producer_epoch.
- Same layout as the version before: v1, v4, v5.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING


@message
class InitProducerIdRequest:
    """Request of InitProducerId."""

    API_KEY: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 2

    transactional_id: str | None = field(STRING, nullable=True)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, since=3, default=-1)
    producer_epoch: int = field(INT16, since=3, default=-1)
    enable2_pc: bool = field(BOOL, since=6)
    keep_prepared_txn: bool = field(BOOL, since=6)


@message
class InitProducerIdResponse:
    """Response of InitProducerId."""

    API_KEY: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)
    ongoing_txn_producer_id: int = field(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = field(INT16, since=6, default=-1)
