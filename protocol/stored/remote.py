"""Records of `__remote_log_metadata`, the catalog of tiered segments."""

from typing import ClassVar

from protocol.message import field, message
from protocol.primitives import BOOL, BYTES, INT8, INT32, INT64, STRING, UUID, array


@message
class RemoteLogSegmentMetadataTopicIdPartitionEntry:
    """Struct of RemoteLogSegmentMetadataRemoteLogSegmentIdEntry.topic_id_partition."""

    name: str = field(STRING)
    id: bytes = field(UUID)
    partition: int = field(INT32)


@message
class RemoteLogSegmentMetadataRemoteLogSegmentIdEntry:
    """Struct of RemoteLogSegmentMetadataRecord.remote_log_segment_id."""

    topic_id_partition: RemoteLogSegmentMetadataTopicIdPartitionEntry = field(
        RemoteLogSegmentMetadataTopicIdPartitionEntry
    )
    id: bytes = field(UUID)


@message
class RemoteLogSegmentMetadataSegmentLeaderEpochEntry:
    """Struct of RemoteLogSegmentMetadataRecord.segment_leader_epochs."""

    leader_epoch: int = field(INT32)
    offset: int = field(INT64)


@message
class RemoteLogSegmentMetadataRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    remote_log_segment_id: RemoteLogSegmentMetadataRemoteLogSegmentIdEntry = field(
        RemoteLogSegmentMetadataRemoteLogSegmentIdEntry
    )
    start_offset: int = field(INT64)
    end_offset: int = field(INT64)
    broker_id: int = field(INT32)
    max_timestamp_ms: int = field(INT64)
    event_timestamp_ms: int = field(INT64)
    segment_leader_epochs: list[RemoteLogSegmentMetadataSegmentLeaderEpochEntry] = field(
        array(RemoteLogSegmentMetadataSegmentLeaderEpochEntry)
    )
    segment_size_in_bytes: int = field(INT32)
    custom_metadata: bytes | None = field(BYTES, nullable=True, default=None)
    remote_log_segment_state: int = field(INT8)
    txn_index_empty: bool = field(BOOL, tag=0)


@message
class RemoteLogSegmentMetadataUpdateTopicIdPartitionEntry:
    """Struct of RemoteLogSegmentMetadataUpdateRemoteLogSegmentIdEntry.topic_id_partition."""

    name: str = field(STRING)
    id: bytes = field(UUID)
    partition: int = field(INT32)


@message
class RemoteLogSegmentMetadataUpdateRemoteLogSegmentIdEntry:
    """Struct of RemoteLogSegmentMetadataUpdateRecord.remote_log_segment_id."""

    topic_id_partition: RemoteLogSegmentMetadataUpdateTopicIdPartitionEntry = field(
        RemoteLogSegmentMetadataUpdateTopicIdPartitionEntry
    )
    id: bytes = field(UUID)


@message
class RemoteLogSegmentMetadataUpdateRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRemoteLogSegmentIdEntry = field(
        RemoteLogSegmentMetadataUpdateRemoteLogSegmentIdEntry
    )
    broker_id: int = field(INT32)
    event_timestamp_ms: int = field(INT64)
    custom_metadata: bytes | None = field(BYTES, nullable=True, default=None)
    remote_log_segment_state: int = field(INT8)


@message
class RemoteLogSegmentMetadataSnapshotSegmentLeaderEpochEntry:
    """Struct of RemoteLogSegmentMetadataSnapshotRecord.segment_leader_epochs."""

    leader_epoch: int = field(INT32)
    offset: int = field(INT64)


@message
class RemoteLogSegmentMetadataSnapshotRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    segment_id: bytes = field(UUID)
    start_offset: int = field(INT64)
    end_offset: int = field(INT64)
    broker_id: int = field(INT32)
    max_timestamp_ms: int = field(INT64)
    event_timestamp_ms: int = field(INT64)
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotSegmentLeaderEpochEntry] = field(
        array(RemoteLogSegmentMetadataSnapshotSegmentLeaderEpochEntry)
    )
    segment_size_in_bytes: int = field(INT32)
    custom_metadata: bytes | None = field(BYTES, nullable=True, default=None)
    remote_log_segment_state: int = field(INT8)
    txn_index_empty: bool = field(BOOL, tag=0)


@message
class RemotePartitionDeleteMetadataTopicIdPartitionEntry:
    """Struct of RemotePartitionDeleteMetadataRecord.topic_id_partition."""

    name: str = field(STRING)
    id: bytes = field(UUID)
    partition: int = field(INT32)


@message
class RemotePartitionDeleteMetadataRecord:
    """Version 0, flexible."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    topic_id_partition: RemotePartitionDeleteMetadataTopicIdPartitionEntry = field(
        RemotePartitionDeleteMetadataTopicIdPartitionEntry
    )
    broker_id: int = field(INT32)
    event_timestamp_ms: int = field(INT64)
    remote_partition_delete_state: int = field(INT8)
