"""ListTransactions (key 66), versions 0 to 2, flexible throughout.

- v1: request adds duration_filter.
- v2: request adds transactional_id_pattern.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, array


@message
class ListTransactionsRequest:
    """Request of ListTransactions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    state_filters: list[str] = field(array(STRING))
    producer_id_filters: list[int] = field(array(INT64))
    duration_filter: int = field(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = field(STRING, since=2, nullable=True, default=None)


@message
class TransactionState:
    """Struct of ListTransactionsResponse.transaction_states."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


@message
class ListTransactionsResponse:
    """Response of ListTransactions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: list[str] = field(array(STRING))
    transaction_states: list[TransactionState] = field(array(TransactionState))
