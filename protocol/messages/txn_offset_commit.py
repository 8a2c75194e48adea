"""TxnOffsetCommit (key 28), versions 0 to 5, flexible since 3.

- v2: request adds committed_leader_epoch.
- v3: request adds generation_id, member_id, group_instance_id; flexible.
- Same layout as the version before: v1, v4, v5.
"""

from typing import ClassVar

from protocol.api_keys import ApiKey
from protocol.message import field, message
from protocol.primitives import INT16, INT32, INT64, STRING, array


@message
class TxnOffsetCommitRequestPartition:
    """Struct of TxnOffsetCommitRequestTopic.partitions."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=2, default=-1)
    committed_metadata: str | None = field(STRING, nullable=True)


@message
class TxnOffsetCommitRequestTopic:
    """Struct of TxnOffsetCommitRequest.topics."""

    name: str = field(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = field(array(TxnOffsetCommitRequestPartition))


@message
class TxnOffsetCommitRequest:
    """Request of TxnOffsetCommit."""

    API_KEY: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id: int = field(INT32, since=3, default=-1)
    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable=True, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


@message
class TxnOffsetCommitResponsePartition:
    """Struct of TxnOffsetCommitResponseTopic.partitions."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message
class TxnOffsetCommitResponseTopic:
    """Struct of TxnOffsetCommitResponse.topics."""

    name: str = field(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = field(array(TxnOffsetCommitResponsePartition))


@message
class TxnOffsetCommitResponse:
    """Response of TxnOffsetCommit."""

    API_KEY: ClassVar[ApiKey] = ApiKey.TXN_OFFSET_COMMIT
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 3

    throttle_time_ms: int = field(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))
