"""InitializeShareGroupState (key 83), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, UUID, array


@message
class PartitionData:
    """Struct of InitializeStateData.partitions."""

    partition: int = field(INT32)
    state_epoch: int = field(INT32)
    start_offset: int = field(INT64)


@message
class InitializeStateData:
    """Struct of InitializeShareGroupStateRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class InitializeShareGroupStateRequest:
    """Request of InitializeShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[InitializeStateData] = field(array(InitializeStateData))


@message
class PartitionResult:
    """Struct of InitializeStateResult.partitions."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class InitializeStateResult:
    """Struct of InitializeShareGroupStateResponse.results."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message
class InitializeShareGroupStateResponse:
    """Response of InitializeShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    results: list[InitializeStateResult] = field(array(InitializeStateResult))
