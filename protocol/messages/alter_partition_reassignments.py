"""AlterPartitionReassignments (key 45), versions 0 to 1, flexible throughout.

- v1: request adds allow_replication_factor_change; response adds allow_replication_factor_change.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, array


@message
class ReassignablePartition:
    """Struct of ReassignableTopic.partitions."""

    partition_index: int = field(INT32)
    replicas: list[int] | None = field(array(INT32), nullable=True, default=None)


@message
class ReassignableTopic:
    """Struct of AlterPartitionReassignmentsRequest.topics."""

    name: str = field(STRING)
    partitions: list[ReassignablePartition] = field(array(ReassignablePartition))


@message
class AlterPartitionReassignmentsRequest:
    """Request of AlterPartitionReassignments."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    timeout_ms: int = field(INT32, default=60000)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


@message
class ReassignablePartitionResponse:
    """Struct of ReassignableTopicResponse.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)


@message
class ReassignableTopicResponse:
    """Struct of AlterPartitionReassignmentsResponse.responses."""

    name: str = field(STRING)
    partitions: list[ReassignablePartitionResponse] = field(array(ReassignablePartitionResponse))


@message
class AlterPartitionReassignmentsResponse:
    """Response of AlterPartitionReassignments."""

    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    responses: list[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))
