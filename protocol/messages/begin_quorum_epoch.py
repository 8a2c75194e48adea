"""BeginQuorumEpoch (key 53), versions 0 to 1, flexible since 1.

- v1: request adds voter_id, leader_endpoints, voter_directory_id; response adds node_endpoints; flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UINT16, UUID, array


@message
class RequestPartitionData:
    """Struct of RequestTopicData.partitions."""

    partition_index: int = field(INT32)
    voter_directory_id: bytes = field(UUID, since=1)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class RequestTopicData:
    """Struct of BeginQuorumEpochRequest.topics."""

    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array(RequestPartitionData))


@message
class LeaderEndpoint:
    """Struct of BeginQuorumEpochRequest.leader_endpoints."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class BeginQuorumEpochRequest:
    """Request of BeginQuorumEpoch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.BEGIN_QUORUM_EPOCH
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    cluster_id: str | None = field(STRING, nullable=True, default=None)
    voter_id: int = field(INT32, since=1, default=-1)
    topics: list[RequestTopicData] = field(array(RequestTopicData))
    leader_endpoints: list[LeaderEndpoint] = field(array(LeaderEndpoint), since=1)


@message
class ResponsePartitionData:
    """Struct of ResponseTopicData.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class ResponseTopicData:
    """Struct of BeginQuorumEpochResponse.topics."""

    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array(ResponsePartitionData))


@message
class NodeEndpoint:
    """Struct of BeginQuorumEpochResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class BeginQuorumEpochResponse:
    """Response of BeginQuorumEpoch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.BEGIN_QUORUM_EPOCH
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=1, tag=0)
