"""Vote (key 52), versions 0 to 2, flexible throughout.

- v1: request adds voter_id, replica_directory_id, voter_directory_id; response adds node_endpoints.
- v2: request adds pre_vote.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, array


@message
class RequestPartitionData:
    """Struct of RequestTopicData.partitions."""

    partition_index: int = field(INT32)
    replica_epoch: int = field(INT32)
    replica_id: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=1)
    voter_directory_id: bytes = field(UUID, since=1)
    last_offset_epoch: int = field(INT32)
    last_offset: int = field(INT64)
    pre_vote: bool = field(BOOL, since=2)


@message
class RequestTopicData:
    """Struct of VoteRequest.topics."""

    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array(RequestPartitionData))


@message
class VoteRequest:
    """Request of Vote."""

    API_KEY: ClassVar[ApiKey] = ApiKey.VOTE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    cluster_id: str | None = field(STRING, nullable=True, default=None)
    voter_id: int = field(INT32, since=1, default=-1)
    topics: list[RequestTopicData] = field(array(RequestTopicData))


@message
class ResponsePartitionData:
    """Struct of ResponseTopicData.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    vote_granted: bool = field(BOOL)


@message
class ResponseTopicData:
    """Struct of VoteResponse.topics."""

    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array(ResponsePartitionData))


@message
class NodeEndpoint:
    """Struct of VoteResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class VoteResponse:
    """Response of Vote."""

    API_KEY: ClassVar[ApiKey] = ApiKey.VOTE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    error_code: int = field(INT16)
    topics: list[ResponseTopicData] = field(array(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=1, tag=0)
