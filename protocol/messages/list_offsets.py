"""ListOffsets (key 2), versions 1 to 11, flexible since 6.

- v2: request adds isolation_level; response adds throttle_time_ms.
- v4: request adds current_leader_epoch; response adds leader_epoch.
- v6: flexible.
- v10: request adds timeout_ms.
- Same layout as the version before: v3, v5, v7, v8, v9, v11.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, INT64, STRING, array


@message
class ListOffsetsPartition:
    """Struct of ListOffsetsTopic.partitions."""

    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=4, default=-1)
    timestamp: int = field(INT64)


@message
class ListOffsetsTopic:
    """Struct of ListOffsetsRequest.topics."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@message
class ListOffsetsRequest:
    """Request of ListOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 11
    FLEXIBLE_SINCE: ClassVar[int] = 6

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2)
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(INT32, since=10)


@message
class ListOffsetsPartitionResponse:
    """Struct of ListOffsetsTopicResponse.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, default=-1)
    offset: int = field(INT64, default=-1)
    leader_epoch: int = field(INT32, since=4, default=-1)


@message
class ListOffsetsTopicResponse:
    """Struct of ListOffsetsResponse.topics."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@message
class ListOffsetsResponse:
    """Response of ListOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 11
    FLEXIBLE_SINCE: ClassVar[int] = 6

    throttle_time_ms: int = field(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))
