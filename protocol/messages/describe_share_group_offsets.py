"""DescribeShareGroupOffsets (key 90), versions 0 to 1, flexible throughout.

- v1: response adds lag.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UUID, array


@message
class DescribeShareGroupOffsetsRequestTopic:
    """Struct of DescribeShareGroupOffsetsRequestGroup.topics."""

    topic_name: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class DescribeShareGroupOffsetsRequestGroup:
    """Struct of DescribeShareGroupOffsetsRequest.groups."""

    group_id: str = field(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        array(DescribeShareGroupOffsetsRequestTopic), nullable=True
    )


@message
class DescribeShareGroupOffsetsRequest:
    """Request of DescribeShareGroupOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(array(DescribeShareGroupOffsetsRequestGroup))


@message
class DescribeShareGroupOffsetsResponsePartition:
    """Struct of DescribeShareGroupOffsetsResponseTopic.partitions."""

    partition_index: int = field(INT32)
    start_offset: int = field(INT64)
    leader_epoch: int = field(INT32)
    lag: int = field(INT64, since=1, default=-1)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class DescribeShareGroupOffsetsResponseTopic:
    """Struct of DescribeShareGroupOffsetsResponseGroup.topics."""

    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        array(DescribeShareGroupOffsetsResponsePartition)
    )


@message
class DescribeShareGroupOffsetsResponseGroup:
    """Struct of DescribeShareGroupOffsetsResponse.groups."""

    group_id: str = field(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(array(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class DescribeShareGroupOffsetsResponse:
    """Response of DescribeShareGroupOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(array(DescribeShareGroupOffsetsResponseGroup))
