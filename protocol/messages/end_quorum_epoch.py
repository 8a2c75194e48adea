"""EndQuorumEpoch (key 54), versions 0 to 1, flexible since 1.

- v1: request adds leader_endpoints, preferred_candidates and drops preferred_successors; response adds
  node_endpoints; flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UINT16, UUID, array


@message
class ReplicaInfo:
    """Struct of RequestPartitionData.preferred_candidates."""

    candidate_id: int = field(INT32)
    candidate_directory_id: bytes = field(UUID)


@message
class RequestPartitionData:
    """Struct of RequestTopicData.partitions."""

    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    preferred_successors: list[int] = field(array(INT32), until=0)
    preferred_candidates: list[ReplicaInfo] = field(array(ReplicaInfo), since=1)


@message
class RequestTopicData:
    """Struct of EndQuorumEpochRequest.topics."""

    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array(RequestPartitionData))


@message
class LeaderEndpoint:
    """Struct of EndQuorumEpochRequest.leader_endpoints."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class EndQuorumEpochRequest:
    """Request of EndQuorumEpoch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.END_QUORUM_EPOCH
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    cluster_id: str | None = field(STRING, nullable=True, default=None)
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
    """Struct of EndQuorumEpochResponse.topics."""

    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array(ResponsePartitionData))


@message
class NodeEndpoint:
    """Struct of EndQuorumEpochResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class EndQuorumEpochResponse:
    """Response of EndQuorumEpoch."""

    API_KEY: ClassVar[ApiKey] = ApiKey.END_QUORUM_EPOCH
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 1

    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=1, tag=0)
