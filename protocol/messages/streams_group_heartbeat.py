"""StreamsGroupHeartbeat (key 88), version 0, flexible throughout."""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, UINT16, array


@message
class KeyValue:
    """Struct of TopicInfo.topic_configs; StreamsGroupHeartbeatRequest.client_tags."""

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
class CopartitionGroup:
    """Struct of Subtopology.copartition_groups."""

    source_topics: list[int] = field(array(INT16))
    source_topic_regex: list[int] = field(array(INT16))
    repartition_source_topics: list[int] = field(array(INT16))


@message
class Subtopology:
    """Struct of Topology.subtopologies."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(array(STRING))
    source_topic_regex: list[str] = field(array(STRING))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_sink_topics: list[str] = field(array(STRING))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))
    copartition_groups: list[CopartitionGroup] = field(array(CopartitionGroup))


@message
class Topology:
    """Struct of StreamsGroupHeartbeatRequest.topology."""

    epoch: int = field(INT32)
    subtopologies: list[Subtopology] = field(array(Subtopology))


@message
class RequestTaskIds:
    """Struct of StreamsGroupHeartbeatRequest.active_tasks and others."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class RequestEndpoint:
    """Struct of StreamsGroupHeartbeatRequest.user_endpoint."""

    host: str = field(STRING)
    port: int = field(UINT16)


@message
class TaskOffset:
    """Struct of StreamsGroupHeartbeatRequest.task_offsets; StreamsGroupHeartbeatRequest.task_end_offsets."""

    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


@message
class StreamsGroupHeartbeatRequest:
    """Request of StreamsGroupHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    endpoint_information_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable=True, default=None)
    rack_id: str | None = field(STRING, nullable=True, default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    topology: Topology | None = field(Topology, nullable=True, default=None)
    active_tasks: list[RequestTaskIds] | None = field(array(RequestTaskIds), nullable=True, default=None)
    standby_tasks: list[RequestTaskIds] | None = field(array(RequestTaskIds), nullable=True, default=None)
    warmup_tasks: list[RequestTaskIds] | None = field(array(RequestTaskIds), nullable=True, default=None)
    process_id: str | None = field(STRING, nullable=True, default=None)
    user_endpoint: RequestEndpoint | None = field(RequestEndpoint, nullable=True, default=None)
    client_tags: list[KeyValue] | None = field(array(KeyValue), nullable=True, default=None)
    task_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable=True, default=None)
    task_end_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable=True, default=None)
    shutdown_application: bool = field(BOOL)


@message
class Status:
    """Struct of StreamsGroupHeartbeatResponse.status."""

    status_code: int = field(INT8)
    status_detail: str = field(STRING)


@message
class ResponseTaskIds:
    """Struct of StreamsGroupHeartbeatResponse.active_tasks and others."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class ResponseEndpoint:
    """Struct of EndpointToPartitions.user_endpoint."""

    host: str = field(STRING)
    port: int = field(UINT16)


@message
class TopicPartition:
    """Struct of EndpointToPartitions.active_partitions; EndpointToPartitions.standby_partitions."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class EndpointToPartitions:
    """Struct of StreamsGroupHeartbeatResponse.partitions_by_user_endpoint."""

    user_endpoint: ResponseEndpoint = field(ResponseEndpoint)
    active_partitions: list[TopicPartition] = field(array(TopicPartition))
    standby_partitions: list[TopicPartition] = field(array(TopicPartition))


@message
class StreamsGroupHeartbeatResponse:
    """Response of StreamsGroupHeartbeat."""

    API_KEY: ClassVar[ApiKey] = ApiKey.STREAMS_GROUP_HEARTBEAT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    acceptable_recovery_lag: int = field(INT32)
    task_offset_interval_ms: int = field(INT32)
    status: list[Status] | None = field(array(Status), nullable=True)
    active_tasks: list[ResponseTaskIds] | None = field(array(ResponseTaskIds), nullable=True, default=None)
    standby_tasks: list[ResponseTaskIds] | None = field(array(ResponseTaskIds), nullable=True, default=None)
    warmup_tasks: list[ResponseTaskIds] | None = field(array(ResponseTaskIds), nullable=True, default=None)
    endpoint_information_epoch: int = field(INT32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        array(EndpointToPartitions), nullable=True, default=None
    )
