"""OffsetForLeaderEpoch (key 23), versions 2 to 4, flexible since 4.

- v3: request adds replica_id.
- v4: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, array


@message
class OffsetForLeaderPartition:
    """Struct of OffsetForLeaderTopic.partitions."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32)


@message
class OffsetForLeaderTopic:
    """Struct of OffsetForLeaderEpochRequest.topics."""

    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


@message
class OffsetForLeaderEpochRequest:
    """Request of OffsetForLeaderEpoch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    replica_id: int = field(INT32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


@message
class EpochEndOffset:
    """Struct of OffsetForLeaderTopicResult.partitions."""

    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


@message
class OffsetForLeaderTopicResult:
    """Struct of OffsetForLeaderEpochResponse.topics."""

    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field(array(EpochEndOffset))


@message
class OffsetForLeaderEpochResponse:
    """Response of OffsetForLeaderEpoch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = field(INT32)
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))
