"""ShareFetch (key 78), versions 1 to 2, flexible throughout.

- v2: request adds share_acquire_mode, is_renew_ack.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, RecordData, array


@message
class AcknowledgementBatch:
    """Struct of FetchPartition.acknowledgement_batches."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(array(INT8))


@message
class FetchPartition:
    """Struct of FetchTopic.partitions."""

    partition_index: int = field(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@message
class FetchTopic:
    """Struct of ShareFetchRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[FetchPartition] = field(array(FetchPartition))


@message
class ForgottenTopic:
    """Struct of ShareFetchRequest.forgotten_topics_data."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class ShareFetchRequest:
    """Request of ShareFetch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_FETCH
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str | None = field(STRING, nullable=True, default=None)
    member_id: str | None = field(STRING, nullable=True)
    share_session_epoch: int = field(INT32)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    max_records: int = field(INT32)
    batch_size: int = field(INT32)
    share_acquire_mode: int = field(INT8, since=2)
    is_renew_ack: bool = field(BOOL, since=2)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic))


@message
class LeaderIdAndEpoch:
    """Struct of PartitionData.current_leader."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class AcquiredRecords:
    """Struct of PartitionData.acquired_records."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_count: int = field(INT16)


@message
class PartitionData:
    """Struct of ShareFetchableTopicResponse.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    acknowledge_error_code: int = field(INT16)
    acknowledge_error_message: str | None = field(STRING, nullable=True, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)
    records: RecordData = field(RECORDS)
    acquired_records: list[AcquiredRecords] = field(array(AcquiredRecords))


@message
class ShareFetchableTopicResponse:
    """Struct of ShareFetchResponse.responses."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class NodeEndpoint:
    """Struct of ShareFetchResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=True, default=None)


@message
class ShareFetchResponse:
    """Response of ShareFetch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_FETCH
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    acquisition_lock_timeout_ms: int = field(INT32)
    responses: list[ShareFetchableTopicResponse] = field(array(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))
