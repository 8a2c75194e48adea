"""OffsetDelete (key 47), version 0, never flexible."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import INT16, INT32, STRING, array


@message
class OffsetDeleteRequestPartition:
    """Struct of OffsetDeleteRequestTopic.partitions."""

    partition_index: int = field(INT32)


@message
class OffsetDeleteRequestTopic:
    """Struct of OffsetDeleteRequest.topics."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


@message
class OffsetDeleteRequest:
    """Request of OffsetDelete."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


@message
class OffsetDeleteResponsePartition:
    """Struct of OffsetDeleteResponseTopic.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class OffsetDeleteResponseTopic:
    """Struct of OffsetDeleteResponse.topics."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


@message
class OffsetDeleteResponse:
    """Response of OffsetDelete."""

    API_KEY: ClassVar[ApiKey] = ApiKey.OFFSET_DELETE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))
