"""ReadShareGroupStateSummary (key 87), versions 0 to 1, flexible throughout.

- v1: response adds delivery_complete_count.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UUID, array


@message
class PartitionData:
    """Struct of ReadStateSummaryData.partitions."""

    partition: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class ReadStateSummaryData:
    """Struct of ReadShareGroupStateSummaryRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class ReadShareGroupStateSummaryRequest:
    """Request of ReadShareGroupStateSummary."""

    API_KEY: ClassVar[ApiKey] = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[ReadStateSummaryData] = field(array(ReadStateSummaryData))


@message
class PartitionResult:
    """Struct of ReadStateSummaryResult.partitions."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, since=1, default=-1)


@message
class ReadStateSummaryResult:
    """Struct of ReadShareGroupStateSummaryResponse.results."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message
class ReadShareGroupStateSummaryResponse:
    """Response of ReadShareGroupStateSummary."""

    API_KEY: ClassVar[ApiKey] = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    results: list[ReadStateSummaryResult] = field(array(ReadStateSummaryResult))
