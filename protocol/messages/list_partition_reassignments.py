"""ListPartitionReassignments (key 46), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, array


@message
class ListPartitionReassignmentsTopics:
    """Struct of ListPartitionReassignmentsRequest.topics."""

    name: str = field(STRING)
    partition_indexes: list[int] = field(array(INT32))


@message
class ListPartitionReassignmentsRequest:
    """Request of ListPartitionReassignments."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    timeout_ms: int = field(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable=True, default=None
    )


@message
class OngoingPartitionReassignment:
    """Struct of OngoingTopicReassignment.partitions."""

    partition_index: int = field(INT32)
    replicas: list[int] = field(array(INT32))
    adding_replicas: list[int] = field(array(INT32))
    removing_replicas: list[int] = field(array(INT32))


@message
class OngoingTopicReassignment:
    """Struct of ListPartitionReassignmentsResponse.topics."""

    name: str = field(STRING)
    partitions: list[OngoingPartitionReassignment] = field(array(OngoingPartitionReassignment))


@message
class ListPartitionReassignmentsResponse:
    """Response of ListPartitionReassignments."""

    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    topics: list[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))
