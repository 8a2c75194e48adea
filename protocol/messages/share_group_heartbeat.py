"""ShareGroupHeartbeat (key 76), version 1, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UUID, array


@message
class ShareGroupHeartbeatRequest:
    """Request of ShareGroupHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    rack_id: str | None = field(STRING, nullable=True, default=None)
    subscribed_topic_names: list[str] | None = field(array(STRING), nullable=True, default=None)


@message
class TopicPartitions:
    """Struct of Assignment.topic_partitions."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class Assignment:
    """Struct of ShareGroupHeartbeatResponse.assignment."""

    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@message
class ShareGroupHeartbeatResponse:
    """Response of ShareGroupHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    member_id: str | None = field(STRING, nullable=True, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable=True, default=None)
