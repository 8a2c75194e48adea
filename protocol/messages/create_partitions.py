"""CreatePartitions (key 37), versions 0 to 3, flexible since 2.

- v2: flexible.
- Same layout as the version before: v1, v3.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, array


@message
class CreatePartitionsAssignment:
    """Struct of CreatePartitionsTopic.assignments."""

    broker_ids: list[int] = field(array(INT32))


@message
class CreatePartitionsTopic:
    """Struct of CreatePartitionsRequest.topics."""

    name: str = field(STRING)
    count: int = field(INT32)
    assignments: list[CreatePartitionsAssignment] | None = field(array(CreatePartitionsAssignment), nullable=True)


@message
class CreatePartitionsRequest:
    """Request of CreatePartitions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


@message
class CreatePartitionsTopicResult:
    """Struct of CreatePartitionsResponse.results."""

    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class CreatePartitionsResponse:
    """Response of CreatePartitions."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))
