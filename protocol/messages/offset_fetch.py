"""OffsetFetch (key 9), versions 1 to 10, flexible since 6.

- v2: request allows null for topics; response adds error_code.
- v3: response adds throttle_time_ms.
- v5: response adds committed_leader_epoch.
- v6: flexible.
- v7: request adds require_stable.
- v8: request adds groups and drops group_id, topics; response adds groups and drops topics, error_code.
- v9: request adds member_id, member_epoch.
- v10: request adds topic_id and drops name; response adds topic_id and drops name.
- Same layout as the version before: v4.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, UUID, array


@message
class OffsetFetchRequestTopic:
    """Struct of OffsetFetchRequest.topics."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(array(INT32))


@message
class OffsetFetchRequestTopics:
    """Struct of OffsetFetchRequestGroup.topics."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partition_indexes: list[int] = field(array(INT32))


@message
class OffsetFetchRequestGroup:
    """Struct of OffsetFetchRequest.groups."""

    group_id: str = field(STRING)
    member_id: str | None = field(STRING, since=9, nullable=True, default=None)
    member_epoch: int = field(INT32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(array(OffsetFetchRequestTopics), nullable=True)


@message
class OffsetFetchRequest:
    """Request of OffsetFetch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 10
    FLEXIBLE_SINCE: ClassVar[int] = 6

    group_id: str = field(STRING, until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(BOOL, since=7)


@message
class OffsetFetchResponsePartition:
    """Struct of OffsetFetchResponseTopic.partitions."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=5, default=-1)
    metadata: str | None = field(STRING, nullable=True)
    error_code: int = field(INT16)


@message
class OffsetFetchResponseTopic:
    """Struct of OffsetFetchResponse.topics."""

    name: str = field(STRING)
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


@message
class OffsetFetchResponsePartitions:
    """Struct of OffsetFetchResponseTopics.partitions."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, default=-1)
    metadata: str | None = field(STRING, nullable=True)
    error_code: int = field(INT16)


@message
class OffsetFetchResponseTopics:
    """Struct of OffsetFetchResponseGroup.topics."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(array(OffsetFetchResponsePartitions))


@message
class OffsetFetchResponseGroup:
    """Struct of OffsetFetchResponse.groups."""

    group_id: str = field(STRING)
    topics: list[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics))
    error_code: int = field(INT16)


@message
class OffsetFetchResponse:
    """Response of OffsetFetch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_FETCH
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 10
    FLEXIBLE_SINCE: ClassVar[int] = 6

    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), until=7)
    error_code: int = field(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), since=8)
