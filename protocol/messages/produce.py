"""Produce (key 0), versions 3 to 13, flexible since 9.

- v5: response adds log_start_offset.
- v8: response adds record_errors, error_message.
- v9: flexible.
- v10: response adds node_endpoints, current_leader.
- v13: request adds topic_id and drops name; response adds topic_id and drops name.
- Same layout as the version before: v4, v6, v7, v11, v12.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, RECORDS, STRING, UUID, RecordData, array


@message
class PartitionProduceData:
    """Struct of TopicProduceData.partition_data."""

    index: int = field(INT32)
    records: RecordData | None = field(RECORDS, nullable=True)


@message
class TopicProduceData:
    """Struct of ProduceRequest.topic_data."""

    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_data: list[PartitionProduceData] = field(array(PartitionProduceData))


@message
class ProduceRequest:
    """Request of Produce."""

    API_KEY: ClassVar[ApiKey] = ApiKey.PRODUCE
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_SINCE: ClassVar[int] = 9

    transactional_id: str | None = field(STRING, nullable=True, default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field(array(TopicProduceData))


@message
class BatchIndexAndErrorMessage:
    """Struct of PartitionProduceResponse.record_errors."""

    batch_index: int = field(INT32)
    batch_index_error_message: str | None = field(STRING, nullable=True, default=None)


@message
class LeaderIdAndEpoch:
    """Struct of PartitionProduceResponse.current_leader."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


@message
class PartitionProduceResponse:
    """Struct of TopicProduceResponse.partition_responses."""

    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(array(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = field(STRING, since=8, nullable=True, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@message
class TopicProduceResponse:
    """Struct of ProduceResponse.responses."""

    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_responses: list[PartitionProduceResponse] = field(array(PartitionProduceResponse))


@message
class NodeEndpoint:
    """Struct of ProduceResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=True, default=None)


@message
class ProduceResponse:
    """Response of Produce."""

    API_KEY: ClassVar[ApiKey] = ApiKey.PRODUCE
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_SINCE: ClassVar[int] = 9

    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), since=10, tag=0)
