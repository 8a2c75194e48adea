"""Records of `__transaction_state`.

TransactionLogValue:
- v1: adds previous_producer_id, next_producer_id, next_producer_epoch, client_transaction_version; flexible.
"""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import INT8, INT16, INT32, INT64, STRING, array


@message
class TransactionLogKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    transactional_id: str = field(STRING)


@message
class PartitionsSchema:
    """Struct of TransactionLogValue.transaction_partitions."""

    topic: str = field(STRING)
    partition_ids: list[int] = field(array(INT32))


@message
class TransactionLogValue:
    """Versions 0 to 1, flexible since 1."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    producer_id: int = field(INT64)
    previous_producer_id: int = field(INT64, since=1, tag=0, default=-1)
    next_producer_id: int = field(INT64, since=1, tag=1, default=-1)
    producer_epoch: int = field(INT16)
    next_producer_epoch: int = field(INT16, since=1, tag=3, default=-1)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: list[PartitionsSchema] | None = field(array(PartitionsSchema), nullable=True)
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int = field(INT64)
    client_transaction_version: int = field(INT16, since=1, tag=2)
