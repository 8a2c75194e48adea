"""DeleteShareGroupOffsets (key 92), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UUID, array


@message
class DeleteShareGroupOffsetsRequestTopic:
    """Struct of DeleteShareGroupOffsetsRequest.topics."""

    topic_name: str = field(STRING)


@message
class DeleteShareGroupOffsetsRequest:
    """Request of DeleteShareGroupOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(array(DeleteShareGroupOffsetsRequestTopic))


@message
class DeleteShareGroupOffsetsResponseTopic:
    """Struct of DeleteShareGroupOffsetsResponse.responses."""

    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)


@message
class DeleteShareGroupOffsetsResponse:
    """Response of DeleteShareGroupOffsets."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(array(DeleteShareGroupOffsetsResponseTopic))
