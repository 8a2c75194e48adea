"""ReadShareGroupState (key 84), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, INT64, STRING, UUID, array


@message
class PartitionData:
    """Struct of ReadStateData.partitions."""

    partition: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class ReadStateData:
    """Struct of ReadShareGroupStateRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class ReadShareGroupStateRequest:
    """Request of ReadShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.READ_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[ReadStateData] = field(array(ReadStateData))


@message
class StateBatch:
    """Struct of PartitionResult.state_batches."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


@message
class PartitionResult:
    """Struct of ReadStateResult.partitions."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    state_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    state_batches: list[StateBatch] = field(array(StateBatch))


@message
class ReadStateResult:
    """Struct of ReadShareGroupStateResponse.results."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message
class ReadShareGroupStateResponse:
    """Response of ReadShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.READ_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    results: list[ReadStateResult] = field(array(ReadStateResult))
