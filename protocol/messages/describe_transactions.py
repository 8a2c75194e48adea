"""DescribeTransactions (key 65), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, array


@message
class DescribeTransactionsRequest:
    """Request of DescribeTransactions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    transactional_ids: list[str] = field(array(STRING))


@message
class TopicData:
    """Struct of TransactionState.topics."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class TransactionState:
    """Struct of DescribeTransactionsResponse.transaction_states."""

    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: int = field(INT64)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    topics: list[TopicData] = field(array(TopicData))


@message
class DescribeTransactionsResponse:
    """Response of DescribeTransactions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    transaction_states: list[TransactionState] = field(array(TransactionState))
