"""Fetch (key 1), versions 4 to 18, flexible since 12.

- v5: request adds log_start_offset; response adds log_start_offset.
- v7: request adds session_id, session_epoch, forgotten_topics_data; response adds error_code, session_id.
- v9: request adds current_leader_epoch.
- v11: request adds rack_id; response adds preferred_read_replica.
- v12: request adds cluster_id, last_fetched_epoch; response adds diverging_epoch, current_leader, snapshot_id;
  flexible.
- v13: request adds topic_id and drops topic; response adds topic_id and drops topic.
- v15: request adds replica_state and drops replica_id.
- v16: response adds node_endpoints.
- v17: request adds replica_directory_id.
- v18: request adds high_watermark.
- Same layout as the version before: v6, v8, v10, v14.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, RecordData, array


@message
class ReplicaState:
    """Struct of FetchRequest.replica_state."""

    replica_id: int = field(INT32, default=-1)
    replica_epoch: int = field(INT64, default=-1)


@message
class FetchPartition:
    """Struct of FetchTopic.partitions."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=9, default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, since=12, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=17, tag=0)
    high_watermark: int = field(INT64, since=18, tag=1, default=0x7FFFFFFFFFFFFFFF)


@message
class FetchTopic:
    """Struct of FetchRequest.topics."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[FetchPartition] = field(array(FetchPartition))


@message
class ForgottenTopic:
    """Struct of FetchRequest.forgotten_topics_data."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[int] = field(array(INT32))


@message
class FetchRequest:
    """Request of Fetch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.FETCH
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 18
    FLEXIBLE_SINCE: ClassVar[int] = 12

    cluster_id: str | None = field(STRING, since=12, nullable=True, tag=0, default=None)
    replica_id: int = field(INT32, until=14, default=-1)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    isolation_level: int = field(INT8)
    session_id: int = field(INT32, since=7)
    session_epoch: int = field(INT32, since=7, default=-1)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), since=7)
    rack_id: str = field(STRING, since=11)


@message
class EpochEndOffset:
    """Struct of PartitionData.diverging_epoch."""

    epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


@message
class LeaderIdAndEpoch:
    """Struct of PartitionData.current_leader."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


@message
class SnapshotId:
    """Struct of PartitionData.snapshot_id."""

    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


@message
class AbortedTransaction:
    """Struct of PartitionData.aborted_transactions."""

    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


@message
class PartitionData:
    """Struct of FetchableTopicResponse.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(array(AbortedTransaction), nullable=True)
    preferred_read_replica: int = field(INT32, since=11, default=-1)
    records: RecordData | None = field(RECORDS, nullable=True)


@message
class FetchableTopicResponse:
    """Struct of FetchResponse.responses."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class NodeEndpoint:
    """Struct of FetchResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=True, default=None)


@message
class FetchResponse:
    """Response of Fetch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.FETCH
    MIN_VERSION: ClassVar[int] = 4
    MAX_VERSION: ClassVar[int] = 18
    FLEXIBLE_SINCE: ClassVar[int] = 12

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=7)
    session_id: int = field(INT32, since=7)
    responses: list[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=16, tag=0)
