"""ShareAcknowledge (key 79), versions 1 to 2, flexible throughout.

- v2: request adds is_renew_ack; response adds acquisition_lock_timeout_ms.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, array


@message
class AcknowledgementBatch:
    """Struct of AcknowledgePartition.acknowledgement_batches."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    acknowledge_types: list[int] = field(array(INT8))


@message
class AcknowledgePartition:
    """Struct of AcknowledgeTopic.partitions."""

    partition_index: int = field(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


@message
class AcknowledgeTopic:
    """Struct of ShareAcknowledgeRequest.topics."""

    topic_id: bytes = field(UUID)
    partitions: list[AcknowledgePartition] = field(array(AcknowledgePartition))


@message
class ShareAcknowledgeRequest:
    """Request of ShareAcknowledge."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_ACKNOWLEDGE
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    group_id: str | None = field(STRING, nullable=True, default=None)
    member_id: str | None = field(STRING, nullable=True)
    share_session_epoch: int = field(INT32)
    is_renew_ack: bool = field(BOOL, since=2)
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


@message
class LeaderIdAndEpoch:
    """Struct of PartitionData.current_leader."""

    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)


@message
class PartitionData:
    """Struct of ShareAcknowledgeTopicResponse.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)


@message
class ShareAcknowledgeTopicResponse:
    """Struct of ShareAcknowledgeResponse.responses."""

    topic_id: bytes = field(UUID)
    partitions: list[PartitionData] = field(array(PartitionData))


@message
class NodeEndpoint:
    """Struct of ShareAcknowledgeResponse.node_endpoints."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=True, default=None)


@message
class ShareAcknowledgeResponse:
    """Response of ShareAcknowledge."""

    API_KEY: ClassVar[ApiKey] = ApiKey.SHARE_ACKNOWLEDGE
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=True, default=None)
    acquisition_lock_timeout_ms: int = field(INT32, since=2)
    responses: list[ShareAcknowledgeTopicResponse] = field(array(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))
