"""AlterShareGroupOffsets (key 91), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UUID, array


@message
class AlterShareGroupOffsetsRequestPartition:
    """Struct of AlterShareGroupOffsetsRequestTopic.partitions."""

    partition_index: int = field(INT32)
    start_offset: int = field(INT64)


@message
class AlterShareGroupOffsetsRequestTopic:
    """Struct of AlterShareGroupOffsetsRequest.topics."""

    topic_name: str = field(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(array(AlterShareGroupOffsetsRequestPartition))


@message
class AlterShareGroupOffsetsRequest:
    """Request of AlterShareGroupOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(array(AlterShareGroupOffsetsRequestTopic))


@message
class AlterShareGroupOffsetsResponsePartition:
    """Struct of AlterShareGroupOffsetsResponseTopic.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class AlterShareGroupOffsetsResponseTopic:
    """Struct of AlterShareGroupOffsetsResponse.responses."""

    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(array(AlterShareGroupOffsetsResponsePartition))


@message
class AlterShareGroupOffsetsResponse:
    """Response of AlterShareGroupOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(array(AlterShareGroupOffsetsResponseTopic))
