"""Records of `__consumer_offsets` for streams groups (KIP-1071)."""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import INT8, INT16, INT32, INT64, STRING, UINT16, array


@message
class StreamsGroupCurrentMemberAssignmentKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class StreamsGroupCurrentMemberAssignmentValueTaskIds:
    """Struct of StreamsGroupCurrentMemberAssignmentValue.active_tasks and others."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array(INT32))
    assignment_epochs: list[int] | None = field(array(INT32), nullable=True, tag=0)


@message
class StreamsGroupCurrentMemberAssignmentValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        array(StreamsGroupCurrentMemberAssignmentValueTaskIds)
    )


@message
class StreamsGroupMemberMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class Endpoint:
    """Struct of StreamsGroupMemberMetadataValue.user_endpoint."""

    host: str = field(STRING)
    port: int = field(UINT16)


@message
class KeyValue:
    """Struct of StreamsGroupMemberMetadataValue.client_tags."""

    key: str = field(STRING)
    value: str = field(STRING)


@message
class StreamsGroupMemberMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    instance_id: str | None = field(STRING, nullable=True)
    rack_id: str | None = field(STRING, nullable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    topology_epoch: int = field(INT32)
    process_id: str = field(STRING)
    user_endpoint: Endpoint | None = field(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))


@message
class StreamsGroupMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class LastAssignmentConfig:
    """Struct of StreamsGroupMetadataValue.last_assignment_configs."""

    key: str = field(STRING)
    value: str = field(STRING)


@message
class StreamsGroupMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64)
    validated_topology_epoch: int = field(INT32, tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(
        array(LastAssignmentConfig), nullable=True, tag=1
    )


@message
class StreamsGroupTargetAssignmentMemberKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message
class StreamsGroupTargetAssignmentMemberValueTaskIds:
    """Struct of StreamsGroupTargetAssignmentMemberValue.active_tasks and others."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class StreamsGroupTargetAssignmentMemberValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(
        array(StreamsGroupTargetAssignmentMemberValueTaskIds)
    )
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(
        array(StreamsGroupTargetAssignmentMemberValueTaskIds)
    )
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(
        array(StreamsGroupTargetAssignmentMemberValueTaskIds)
    )


@message
class StreamsGroupTargetAssignmentMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class StreamsGroupTargetAssignmentMetadataValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    assignment_epoch: int = field(INT32)


@message
class StreamsGroupTopologyKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group_id: str = field(STRING)


@message
class TopicConfig:
    """Struct of TopicInfo.topic_configs."""

    key: str = field(STRING)
    value: str = field(STRING)


@message
class TopicInfo:
    """Struct of Subtopology.state_changelog_topics; Subtopology.repartition_source_topics."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[TopicConfig] = field(array(TopicConfig))


@message
class CopartitionGroup:
    """Struct of Subtopology.copartition_groups."""

    source_topics: list[int] = field(array(INT16))
    source_topic_regex: list[int] = field(array(INT16))
    repartition_source_topics: list[int] = field(array(INT16))


@message
class Subtopology:
    """Struct of StreamsGroupTopologyValue.subtopologies."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(array(STRING))
    source_topic_regex: list[str] = field(array(STRING))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_sink_topics: list[str] = field(array(STRING))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))
    copartition_groups: list[CopartitionGroup] = field(array(CopartitionGroup))


@message
class StreamsGroupTopologyValue:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    epoch: int = field(INT32)
    subtopologies: list[Subtopology] = field(array(Subtopology))
