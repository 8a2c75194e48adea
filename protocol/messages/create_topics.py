"""CreateTopics (key 19), versions 2 to 7, flexible since 5.

- v5: response adds topic_config_error_code, num_partitions, replication_factor, configs; flexible.
- v7: response adds topic_id.
- Same layout as the version before: v3, v4, v6.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, STRING, UUID, array


@message
class CreatableReplicaAssignment:
    """Struct of CreatableTopic.assignments."""

    partition_index: int = field(INT32)
    broker_ids: list[int] = field(array(INT32))


@message
class CreatableTopicConfig:
    """Struct of CreatableTopic.configs."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=True)


@message
class CreatableTopic:
    """Struct of CreateTopicsRequest.topics."""

    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: list[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(array(CreatableTopicConfig))


@message
class CreateTopicsRequest:
    """Request of CreateTopics."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7
    FLEXIBLE_SINCE: ClassVar[int] = 5

    topics: list[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL)


@message
class CreatableTopicConfigs:
    """Struct of CreatableTopicResult.configs."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=True)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)


@message
class CreatableTopicResult:
    """Struct of CreateTopicsResponse.topics."""

    name: str = field(STRING)
    topic_id: bytes = field(UUID, since=7)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True)
    topic_config_error_code: int = field(INT16, since=5, tag=0)
    num_partitions: int = field(INT32, since=5, default=-1)
    replication_factor: int = field(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(array(CreatableTopicConfigs), since=5, nullable=True)


@message
class CreateTopicsResponse:
    """Response of CreateTopics."""

    API_KEY: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7
    FLEXIBLE_SINCE: ClassVar[int] = 5

    throttle_time_ms: int = field(INT32)
    topics: list[CreatableTopicResult] = field(array(CreatableTopicResult))
