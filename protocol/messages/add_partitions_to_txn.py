"""AddPartitionsToTxn (key 24), versions 0 to 5, flexible since 3.

- v3: flexible.
- v4: request adds transactions and drops v3_and_below_transactional_id, v3_and_below_producer_id,
  v3_and_below_producer_epoch, v3_and_below_topics; response adds error_code, results_by_transaction and drops
  results_by_topic_v3_and_below.
- Same layout as the version before: v1, v2, v5.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, array


@message
class AddPartitionsToTxnTopic:
    """Struct of AddPartitionsToTxnTransaction.topics; AddPartitionsToTxnRequest.v3_and_below_topics."""

    name: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class AddPartitionsToTxnTransaction:
    """Struct of AddPartitionsToTxnRequest.transactions."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    verify_only: bool = field(BOOL)
    topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic))


@message
class AddPartitionsToTxnRequest:
    """Request of AddPartitionsToTxn."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    transactions: list[AddPartitionsToTxnTransaction] = field(array(AddPartitionsToTxnTransaction), since=4)
    v3_and_below_transactional_id: str = field(STRING, until=3)
    v3_and_below_producer_id: int = field(INT64, until=3)
    v3_and_below_producer_epoch: int = field(INT16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic), until=3)


@message
class AddPartitionsToTxnPartitionResult:
    """Struct of AddPartitionsToTxnTopicResult.results_by_partition."""

    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


@message
class AddPartitionsToTxnTopicResult:
    """Struct of AddPartitionsToTxnResult.topic_results and others."""

    name: str = field(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(array(AddPartitionsToTxnPartitionResult))


@message
class AddPartitionsToTxnResult:
    """Struct of AddPartitionsToTxnResponse.results_by_transaction."""

    transactional_id: str = field(STRING)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult))


@message
class AddPartitionsToTxnResponse:
    """Response of AddPartitionsToTxn."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_PARTITIONS_TO_TXN
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(array(AddPartitionsToTxnResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult), until=3
    )
