"""DeleteRecords (key 21), versions 0 to 2, flexible since 2.

- v2: flexible.
- Same layout as the version before: v1.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, array


@message
class DeleteRecordsPartition:
    """Struct of DeleteRecordsTopic.partitions."""

    partition_index: int = field(INT32)
    offset: int = field(INT64)


@message
class DeleteRecordsTopic:
    """Struct of DeleteRecordsRequest.topics."""

    name: str = field(STRING)
    partitions: list[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


@message
class DeleteRecordsRequest:
    """Request of DeleteRecords."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


@message
class DeleteRecordsPartitionResult:
    """Struct of DeleteRecordsTopicResult.partitions."""

    partition_index: int = field(INT32)
    low_watermark: int = field(INT64)
    error_code: int = field(INT16)


@message
class DeleteRecordsTopicResult:
    """Struct of DeleteRecordsResponse.topics."""

    name: str = field(STRING)
    partitions: list[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


@message
class DeleteRecordsResponse:
    """Response of DeleteRecords."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    topics: list[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))
