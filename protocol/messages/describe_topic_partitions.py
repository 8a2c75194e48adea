"""DescribeTopicPartitions (key 75), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, UUID, array


@message
class TopicRequest:
    """Struct of DescribeTopicPartitionsRequest.topics."""

    name: str = field(STRING)


@message
class RequestCursor:
    """Struct of DescribeTopicPartitionsRequest.cursor."""

    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


@message
class DescribeTopicPartitionsRequest:
    """Request of DescribeTopicPartitions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topics: list[TopicRequest] = field(array(TopicRequest))
    response_partition_limit: int = field(INT32, default=2000)
    cursor: RequestCursor | None = field(RequestCursor, nullable=True, default=None)


@message
class DescribeTopicPartitionsResponsePartition:
    """Struct of DescribeTopicPartitionsResponseTopic.partitions."""

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    replica_nodes: list[int] = field(array(INT32))
    isr_nodes: list[int] = field(array(INT32))
    eligible_leader_replicas: list[int] | None = field(array(INT32), nullable=True, default=None)
    last_known_elr: list[int] | None = field(array(INT32), nullable=True, default=None)
    offline_replicas: list[int] = field(array(INT32))


@message
class DescribeTopicPartitionsResponseTopic:
    """Struct of DescribeTopicPartitionsResponse.topics."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable=True)
    topic_id: bytes = field(UUID)
    is_internal: bool = field(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(INT32, default=-0x80000000)


@message
class ResponseCursor:
    """Struct of DescribeTopicPartitionsResponse.next_cursor."""

    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


@message
class DescribeTopicPartitionsResponse:
    """Response of DescribeTopicPartitions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(array(DescribeTopicPartitionsResponseTopic))
    next_cursor: ResponseCursor | None = field(ResponseCursor, nullable=True, default=None)
