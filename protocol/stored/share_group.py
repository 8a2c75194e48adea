"""Records of `__consumer_offsets` for share groups (KIP-932)."""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import INT8, INT32, INT64, STRING, UUID, array


@message
class ShareGroupCurrentMemberAssignmentKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class TopicPartitions:
    """Struct of ShareGroupCurrentMemberAssignmentValue.assigned_partitions."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class ShareGroupCurrentMemberAssignmentValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@message
class ShareGroupMemberMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class ShareGroupMemberMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    rack_id: str | None = field(STRING, nullable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array(STRING))


@message
class ShareGroupMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class ShareGroupMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64)


@message
class ShareGroupStatePartitionMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class TopicPartitionsInfo:
    """Struct of ShareGroupStatePartitionMetadataValue.initializing_topics and others."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class TopicInfo:
    """Struct of ShareGroupStatePartitionMetadataValue.deleting_topics."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)


@message
class ShareGroupStatePartitionMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    initializing_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = field(array(TopicPartitionsInfo))
    deleting_topics: list[TopicInfo] = field(array(TopicInfo))


@message
class ShareGroupTargetAssignmentMemberKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class TopicPartition:
    """Struct of ShareGroupTargetAssignmentMemberValue.topic_partitions."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(array(INT32))


@message
class ShareGroupTargetAssignmentMemberValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topic_partitions: list[TopicPartition] = field(array(TopicPartition))


@message
class ShareGroupTargetAssignmentMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class ShareGroupTargetAssignmentMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    assignment_epoch: int = field(INT32)
