"""FetchSnapshot (key 59), versions 0 to 1, flexible throughout.

- v1: request adds replica_directory_id; response adds node_endpoints.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, RECORDS, STRING, UINT16, UUID, RecordData, array


@message
class RequestSnapshotId:
    """Struct of RequestPartitionSnapshot.snapshot_id."""

    end_offset: int = field(INT64)
    epoch: int = field(INT32)


@message
class RequestPartitionSnapshot:
    """Struct of RequestTopicSnapshot.partitions."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32)
    snapshot_id: RequestSnapshotId = field(RequestSnapshotId)
    position: int = field(INT64)
    replica_directory_id: bytes = field(UUID, since=1, tag=0)


@message
class RequestTopicSnapshot:
    """Struct of FetchSnapshotRequest.topics."""

    name: str = field(STRING)
    partitions: list[RequestPartitionSnapshot] = field(array(RequestPartitionSnapshot))


@message
class FetchSnapshotRequest:
    """Request of FetchSnapshot."""

    API_KEY: ClassVar[ApiKey] = ApiKey.FETCH_SNAPSHOT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    cluster_id: str | None = field(STRING, nullable=True, tag=0, default=None)
    replica_id: int = field(INT32, default=-1)
    max_bytes: int = field(INT32, default=0x7FFFFFFF)
    topics: list[RequestTopicSnapshot] = field(array(RequestTopicSnapshot))


@message
class ResponseSnapshotId:
    """Struct of ResponsePartitionSnapshot.snapshot_id."""

    end_offset: int = field(INT64)
    epoch: int = field(INT32)


@message
class LeaderIdAndEpoch:
    """Struct of ResponsePartitionSnapshot.current_leader."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class ResponsePartitionSnapshot:
    """Struct of ResponseTopicSnapshot.partitions."""

    index: int = field(INT32)
    error_code: int = field(INT16)
    snapshot_id: ResponseSnapshotId = field(ResponseSnapshotId)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, tag=0)
    size: int = field(INT64)
    position: int = field(INT64)
    unaligned_records: RecordData = field(RECORDS)


@message
class ResponseTopicSnapshot:
    """Struct of FetchSnapshotResponse.topics."""

    name: str = field(STRING)
    partitions: list[ResponsePartitionSnapshot] = field(array(ResponsePartitionSnapshot))


@message
class NodeEndpoint:
    """Struct of FetchSnapshotResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class FetchSnapshotResponse:
    """Response of FetchSnapshot."""

    API_KEY: ClassVar[ApiKey] = ApiKey.FETCH_SNAPSHOT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    topics: list[ResponseTopicSnapshot] = field(array(ResponseTopicSnapshot))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=1, tag=0)
