"""StreamsGroupDescribe (key 89), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT16, INT32, INT64, STRING, UINT16, array


@message
class StreamsGroupDescribeRequest:
    """Request of StreamsGroupDescribe."""

    API_KEY: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_DESCRIBE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_ids: list[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL)


@message
class KeyValue:
    """Struct of TopicInfo.topic_configs; Member.client_tags."""

    key: str = field(STRING)
    value: str = field(STRING)


@message
class TopicInfo:
    """Struct of Subtopology.state_changelog_topics; Subtopology.repartition_source_topics."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[KeyValue] = field(array(KeyValue))


@message
class Subtopology:
    """Struct of Topology.subtopologies."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(array(STRING))
    repartition_sink_topics: list[str] = field(array(STRING))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))


@message
class Topology:
    """Struct of DescribedGroup.topology."""

    epoch: int = field(INT32)
    subtopologies: list[Subtopology] | None = field(array(Subtopology), nullable=True, default=None)


@message
class Endpoint:
    """Struct of Member.user_endpoint."""

    host: str = field(STRING)
    port: int = field(UINT16)


@message
class TaskOffset:
    """Struct of Member.task_offsets; Member.task_end_offsets."""

    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


@message
class TaskIds:
    """Struct of Assignment.active_tasks; Assignment.standby_tasks; Assignment.warmup_tasks."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class Assignment:
    """Struct of Member.assignment; Member.target_assignment."""

    active_tasks: list[TaskIds] = field(array(TaskIds))
    standby_tasks: list[TaskIds] = field(array(TaskIds))
    warmup_tasks: list[TaskIds] = field(array(TaskIds))


@message
class Member:
    """Struct of DescribedGroup.members."""

    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable=True, default=None)
    rack_id: str | None = field(STRING, nullable=True, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    topology_epoch: int = field(INT32)
    process_id: str = field(STRING)
    user_endpoint: Endpoint | None = field(Endpoint, nullable=True, default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))
    task_offsets: list[TaskOffset] = field(array(TaskOffset))
    task_end_offsets: list[TaskOffset] = field(array(TaskOffset))
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    is_classic: bool = field(BOOL)


@message
class DescribedGroup:
    """Struct of StreamsGroupDescribeResponse.groups."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    topology: Topology | None = field(Topology, nullable=True, default=None)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(INT32, default=-0x80000000)


@message
class StreamsGroupDescribeResponse:
    """Response of StreamsGroupDescribe."""

    API_KEY: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_DESCRIBE
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
