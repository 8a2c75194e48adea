"""ConsumerGroupHeartbeat (key 68), versions 0 to 1, flexible throughout.

- v1: request adds subscribed_topic_regex.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UUID, array


@message
class RequestTopicPartitions:
    """Struct of ConsumerGroupHeartbeatRequest.topic_partitions."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class ConsumerGroupHeartbeatRequest:
    """Request of ConsumerGroupHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable=True, default=None)
    rack_id: str | None = field(STRING, nullable=True, default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(STRING), nullable=True, default=None)
    subscribed_topic_regex: str | None = field(STRING, since=1, nullable=True, default=None)
    server_assignor: str | None = field(STRING, nullable=True, default=None)
    topic_partitions: list[RequestTopicPartitions] | None = field(
        array(RequestTopicPartitions), nullable=True, default=None
    )


@message
class ResponseTopicPartitions:
    """Struct of Assignment.topic_partitions."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class Assignment:
    """Struct of ConsumerGroupHeartbeatResponse.assignment."""

    topic_partitions: list[ResponseTopicPartitions] = field(array(ResponseTopicPartitions))


@message
class ConsumerGroupHeartbeatResponse:
    """Response of ConsumerGroupHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CONSUMER_GROUP_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    member_id: str | None = field(STRING, nullable=True, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable=True, default=None)
