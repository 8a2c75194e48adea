"""DescribeProducers (key 61), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, array


@message
class TopicRequest:
    """Struct of DescribeProducersRequest.topics."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(array(INT32))


@message
class DescribeProducersRequest:
    """Request of DescribeProducers."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topics: list[TopicRequest] = field(array(TopicRequest))


@message
class ProducerState:
    """Struct of PartitionResponse.active_producers."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: int = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: int = field(INT64, default=-1)


@message
class PartitionResponse:
    """Struct of TopicResponse.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    active_producers: list[ProducerState] = field(array(ProducerState))


@message
class TopicResponse:
    """Struct of DescribeProducersResponse.topics."""

    name: str = field(STRING)
    partitions: list[PartitionResponse] = field(array(PartitionResponse))


@message
class DescribeProducersResponse:
    """Response of DescribeProducers."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    topics: list[TopicResponse] = field(array(TopicResponse))
