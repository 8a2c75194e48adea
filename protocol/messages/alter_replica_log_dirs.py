"""AlterReplicaLogDirs (key 34), versions 1 to 2, flexible since 2.

- v2: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, array


@message
class AlterReplicaLogDirTopic:
    """Struct of AlterReplicaLogDir.topics."""

    name: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class AlterReplicaLogDir:
    """Struct of AlterReplicaLogDirsRequest.dirs."""

    path: str = field(STRING)
    topics: list[AlterReplicaLogDirTopic] = field(array(AlterReplicaLogDirTopic))


@message
class AlterReplicaLogDirsRequest:
    """Request of AlterReplicaLogDirs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    dirs: list[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


@message
class AlterReplicaLogDirPartitionResult:
    """Struct of AlterReplicaLogDirTopicResult.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class AlterReplicaLogDirTopicResult:
    """Struct of AlterReplicaLogDirsResponse.results."""

    topic_name: str = field(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(array(AlterReplicaLogDirPartitionResult))


@message
class AlterReplicaLogDirsResponse:
    """Response of AlterReplicaLogDirs."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    results: list[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))
