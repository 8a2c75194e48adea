"""WriteShareGroupState (key 85), versions 0 to 1, flexible throughout.

- v1: request adds delivery_complete_count.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT8, INT16, INT32, INT64, STRING, UUID, array


@message
class StateBatch:
    """Struct of PartitionData.state_batches."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


@message
class PartitionData:
    """Struct of WriteStateData.partitions."""

    partition: int = field(INT32)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, since=1, default=-1)
    state_batches: list[StateBatch] = field(array(StateBatch))


@message
class WriteStateData:
    """Struct of WriteShareGroupStateRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class WriteShareGroupStateRequest:
    """Request of WriteShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.WRITE_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[WriteStateData] = field(array(WriteStateData))


@message
class PartitionResult:
    """Struct of WriteStateResult.partitions."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class WriteStateResult:
    """Struct of WriteShareGroupStateResponse.results."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message
class WriteShareGroupStateResponse:
    """Response of WriteShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.WRITE_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_SINCE: ClassVar[int] = 0

    results: list[WriteStateResult] = field(array(WriteStateResult))
