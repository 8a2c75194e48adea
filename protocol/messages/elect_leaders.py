"""ElectLeaders (key 43), versions 0 to 2, flexible since 2.

- v1: request adds election_type; response adds error_code.
- v2: flexible.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, STRING, array


@message
class TopicPartitions:
    """Struct of ElectLeadersRequest.topic_partitions."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class ElectLeadersRequest:
    """Request of ElectLeaders."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    election_type: int = field(INT8, since=1)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable=True)
    timeout_ms: int = field(INT32, default=60000)


@message
class PartitionResult:
    """Struct of ReplicaElectionResult.partition_result."""

    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)


@message
class ReplicaElectionResult:
    """Struct of ElectLeadersResponse.replica_election_results."""

    topic: str = field(STRING)
    partition_result: list[PartitionResult] = field(array(PartitionResult))


@message
class ElectLeadersResponse:
    """Response of ElectLeaders."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(array(ReplicaElectionResult))
