"""AssignReplicasToDirs (key 73), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, UUID, array


@message
class RequestPartitionData:
    """Struct of RequestTopicData.partitions."""

    partition_index: int = field(INT32)


@message
class RequestTopicData:
    """Struct of RequestDirectoryData.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[RequestPartitionData] = field(array(RequestPartitionData))


@message
class RequestDirectoryData:
    """Struct of AssignReplicasToDirsRequest.directories."""

    id: bytes = field(UUID)
    topics: list[RequestTopicData] = field(array(RequestTopicData))


@message
class AssignReplicasToDirsRequest:
    """Request of AssignReplicasToDirs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ASSIGN_REPLICAS_TO_DIRS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    directories: list[RequestDirectoryData] = field(array(RequestDirectoryData))


@message
class ResponsePartitionData:
    """Struct of ResponseTopicData.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class ResponseTopicData:
    """Struct of ResponseDirectoryData.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[ResponsePartitionData] = field(array(ResponsePartitionData))


@message
class ResponseDirectoryData:
    """Struct of AssignReplicasToDirsResponse.directories."""

    id: bytes = field(UUID)
    topics: list[ResponseTopicData] = field(array(ResponseTopicData))


@message
class AssignReplicasToDirsResponse:
    """Response of AssignReplicasToDirs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ASSIGN_REPLICAS_TO_DIRS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    directories: list[ResponseDirectoryData] = field(array(ResponseDirectoryData))
