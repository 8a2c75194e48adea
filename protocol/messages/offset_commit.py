"""OffsetCommit (key 8), versions 2 to 10, flexible since 8.

- v3: response adds throttle_time_ms.
- v5: request drops retention_time_ms.
- v6: request adds committed_leader_epoch.
- v7: request adds group_instance_id.
- v8: flexible.
- v10: request adds topic_id and drops name; response adds topic_id and drops name.
- Same layout as the version before: v4, v9.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UUID, array


@message
class OffsetCommitRequestPartition:
    """Struct of OffsetCommitRequestTopic.partitions."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=6, default=-1)
    committed_metadata: str | None = field(STRING, nullable=True)


@message
class OffsetCommitRequestTopic:
    """Struct of OffsetCommitRequest.topics."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


@message
class OffsetCommitRequest:
    """Request of OffsetCommit."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 10
    FLEXIBLE_SINCE: ClassVar[int] = 8

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=7, nullable=True, default=None)
    retention_time_ms: int = field(INT64, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


@message
class OffsetCommitResponsePartition:
    """Struct of OffsetCommitResponseTopic.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class OffsetCommitResponseTopic:
    """Struct of OffsetCommitResponse.topics."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


@message
class OffsetCommitResponse:
    """Response of OffsetCommit."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_COMMIT
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 10
    FLEXIBLE_SINCE: ClassVar[int] = 8

    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))
