"""DeleteShareGroupState (key 86), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UUID, array


@message
class PartitionData:
    """Struct of DeleteStateData.partitions."""

    partition: int = field(INT32)


@message
class DeleteStateData:
    """Struct of DeleteShareGroupStateRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class DeleteShareGroupStateRequest:
    """Request of DeleteShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[DeleteStateData] = field(array(DeleteStateData))


@message
class PartitionResult:
    """Struct of DeleteStateResult.partitions."""

    partition: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class DeleteStateResult:
    """Struct of DeleteShareGroupStateResponse.results."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionResult] = field(array(PartitionResult))


@message
class DeleteShareGroupStateResponse:
    """Response of DeleteShareGroupState."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_STATE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    results: list[DeleteStateResult] = field(array(DeleteStateResult))
