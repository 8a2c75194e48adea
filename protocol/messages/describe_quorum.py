"""DescribeQuorum (key 55), versions 0 to 2, flexible throughout.

- v1: response adds last_fetch_timestamp, last_caught_up_timestamp.
- v2: response adds error_message, nodes, replica_directory_id.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UINT16, UUID, array


@message
class RequestPartitionData:
    """Struct of RequestTopicData.partitions."""

    partition_index: int = field(INT32)


@message
class RequestTopicData:
    """Struct of DescribeQuorumRequest.topics."""

    topic_name: str = field(STRING)
    partitions: list[RequestPartitionData] = field(array(RequestPartitionData))


@message
class DescribeQuorumRequest:
    """Request of DescribeQuorum."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topics: list[RequestTopicData] = field(array(RequestTopicData))


@message
class ReplicaState:
    """Struct of ResponsePartitionData.current_voters; ResponsePartitionData.observers."""

    replica_id: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=2)
    log_end_offset: int = field(INT64)
    last_fetch_timestamp: int = field(INT64, since=1, default=-1)
    last_caught_up_timestamp: int = field(INT64, since=1, default=-1)


@message
class ResponsePartitionData:
    """Struct of ResponseTopicData.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, nullable=True)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    high_watermark: int = field(INT64)
    current_voters: list[ReplicaState] = field(array(ReplicaState))
    observers: list[ReplicaState] = field(array(ReplicaState))


@message
class ResponseTopicData:
    """Struct of DescribeQuorumResponse.topics."""

    topic_name: str = field(STRING)
    partitions: list[ResponsePartitionData] = field(array(ResponsePartitionData))


@message
class Listener:
    """Struct of Node.listeners."""

    name: str = field(STRING)
    host: str = field(STRING)
    port: int = field(UINT16)


@message
class Node:
    """Struct of DescribeQuorumResponse.nodes."""

    node_id: int = field(INT32)
    listeners: list[Listener] = field(array(Listener))


@message
class DescribeQuorumResponse:
    """Response of DescribeQuorum."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUORUM
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=2, nullable=True)
    topics: list[ResponseTopicData] = field(array(ResponseTopicData))
    nodes: list[Node] = field(array(Node), since=2)
