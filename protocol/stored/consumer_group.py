"""Records of `__consumer_offsets` for groups of the new consumer protocol (KIP-848), as of Kafka 4.3."""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import BYTES, INT8, INT32, INT64, STRING, UUID, array


@message
class ConsumerGroupCurrentMemberAssignmentKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class TopicPartitions:
    """Struct of ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions and others."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))
    assignment_epochs: list[int] | None = field(array(INT32), nullable=True, default=None, tag=0)


@message
class ConsumerGroupCurrentMemberAssignmentValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = field(array(TopicPartitions))


@message
class ConsumerGroupMemberMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class ClassicProtocol:
    """Struct of ClassicMemberMetadata.supported_protocols."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@message
class ClassicMemberMetadata:
    """Struct of ConsumerGroupMemberMetadataValue.classic_member_metadata."""

    session_timeout_ms: int = field(INT32)
    supported_protocols: list[ClassicProtocol] = field(array(ClassicProtocol))


@message
class ConsumerGroupMemberMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    instance_id: str | None = field(STRING, nullable=True)
    rack_id: str | None = field(STRING, nullable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable=True)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    server_assignor: str | None = field(STRING, nullable=True)
    classic_member_metadata: ClassicMemberMetadata | None = field(ClassicMemberMetadata, nullable=True, tag=0)


@message
class ConsumerGroupMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class ConsumerGroupMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, tag=0)


@message
class ConsumerGroupPartitionMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class PartitionMetadata:
    """Struct of TopicMetadata.partition_metadata."""

    partition: int = field(INT32)
    racks: list[str] = field(array(STRING))


@message
class TopicMetadata:
    """Struct of ConsumerGroupPartitionMetadataValue.topics."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    num_partitions: int = field(INT32)
    partition_metadata: list[PartitionMetadata] = field(array(PartitionMetadata))


@message
class ConsumerGroupPartitionMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topics: list[TopicMetadata] = field(array(TopicMetadata))


@message
class ConsumerGroupRegularExpressionKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    regular_expression: str = field(STRING)


@message
class ConsumerGroupRegularExpressionValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topics: list[str] = field(array(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)


@message
class ConsumerGroupTargetAssignmentMemberKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class TopicPartition:
    """Struct of ConsumerGroupTargetAssignmentMemberValue.topic_partitions."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class ConsumerGroupTargetAssignmentMemberValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topic_partitions: list[TopicPartition] = field(array(TopicPartition))


@message
class ConsumerGroupTargetAssignmentMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 6
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class ConsumerGroupTargetAssignmentMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 6
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, default=0, tag=0)
