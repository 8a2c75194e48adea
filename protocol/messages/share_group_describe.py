"""ShareGroupDescribe (key 77), version 1, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, UUID, array


@message
class ShareGroupDescribeRequest:
    """Request of ShareGroupDescribe."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_ids: list[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL)


@message
class TopicPartitions:
    """Struct of Assignment.topic_partitions."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class Assignment:
    """Struct of Member.assignment."""

    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@message
class Member:
    """Struct of DescribedGroup.members."""

    member_id: str = field(STRING)
    rack_id: str | None = field(STRING, nullable=True, default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array(STRING))
    assignment: Assignment = field(Assignment)


@message
class DescribedGroup:
    """Struct of ShareGroupDescribeResponse.groups."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(INT32, default=-0x80000000)


@message
class ShareGroupDescribeResponse:
    """Response of ShareGroupDescribe."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_GROUP_DESCRIBE
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
