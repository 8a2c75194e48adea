"""DeleteTopics (key 20), versions 1 to 6, flexible since 4.

- v4: flexible.
- v5: response adds error_message.
- v6: request adds topics and drops topic_names; response adds topic_id and allows null for name.
- Same layout as the version before: v2, v3.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, STRING, UUID, array


@message
class DeleteTopicState:
    """Struct of DeleteTopicsRequest.topics."""

    name: str | None = field(STRING, nullable=True, default=None)
    topic_id: bytes = field(UUID)


@message
class DeleteTopicsRequest:
    """Request of DeleteTopics."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 4

    topics: list[DeleteTopicState] = field(array(DeleteTopicState), since=6)
    topic_names: list[str] = field(array(STRING), until=5)
    timeout_ms: int = field(INT32)


@message
class DeletableTopicResult:
    """Struct of DeleteTopicsResponse.responses."""

    name: str | None = field(STRING, nullable_since=6)
    topic_id: bytes = field(UUID, since=6)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=5, nullable=True, default=None)


@message
class DeleteTopicsResponse:
    """Response of DeleteTopics."""

    API_KEY: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = field(INT32)
    responses: list[DeletableTopicResult] = field(array(DeletableTopicResult))
