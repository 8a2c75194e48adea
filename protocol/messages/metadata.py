"""Metadata (key 3), versions 0 to 13, flexible since 9.

- v1: request allows null for topics; response adds controller_id, rack, is_internal.
- v2: response adds cluster_id.
- v3: response adds throttle_time_ms.
- v4: request adds allow_auto_topic_creation.
- v5: response adds offline_replicas.
- v7: response adds leader_epoch.
- v8: request adds include_cluster_authorized_operations, include_topic_authorized_operations; response adds
  cluster_authorized_operations, topic_authorized_operations.
- v9: flexible.
- v10: request adds topic_id and allows null for name; response adds topic_id.
- v11: request drops include_cluster_authorized_operations; response drops cluster_authorized_operations.
- v12: response allows null for name.
- v13: response adds error_code.
- Same layout as the version before: v6.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, STRING, UUID, array


@message
class MetadataRequestTopic:
    """Struct of MetadataRequest.topics."""

    topic_id: bytes = field(UUID, since=10)
    name: str | None = field(STRING, nullable_since=10)


@message
class MetadataRequest:
    """Request of Metadata."""

    API_KEY: ClassVar[ApiKey] = ApiKey.METADATA
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_SINCE: ClassVar[int] = 9

    topics: list[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable_since=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = field(BOOL, since=8)


@message
class MetadataResponseBroker:
    """Struct of MetadataResponse.brokers."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, since=1, nullable=True, default=None)


@message
class MetadataResponsePartition:
    """Struct of MetadataResponseTopic.partitions."""

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, since=7, default=-1)
    replica_nodes: list[int] = field(array(INT32))
    isr_nodes: list[int] = field(array(INT32))
    offline_replicas: list[int] = field(array(INT32), since=5)


@message
class MetadataResponseTopic:
    """Struct of MetadataResponse.topics."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable_since=12)
    topic_id: bytes = field(UUID, since=10)
    is_internal: bool = field(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, since=8, default=-0x80000000)


@message
class MetadataResponse:
    """Response of Metadata."""

    API_KEY: ClassVar[ApiKey] = ApiKey.METADATA
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_SINCE: ClassVar[int] = 9

    throttle_time_ms: int = field(INT32, since=3)
    brokers: list[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, since=2, nullable=True, default=None)
    controller_id: int = field(INT32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(INT32, since=8, until=10, default=-0x80000000)
    error_code: int = field(INT16, since=13)
