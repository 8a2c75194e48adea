"""Records of `__consumer_offsets` for committed offsets and classic groups.

OffsetCommitValue:
- v1: adds expire_timestamp.
- v2: drops expire_timestamp.
- v3: adds leader_epoch.
- v4: adds topic_id; flexible.
GroupMetadataValue:
- v1: adds rebalance_timeout.
- v2: adds current_state_timestamp.
- v3: adds group_instance_id.
- v4: flexible.
"""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import BYTES, INT32, INT64, STRING, UUID, array


@message
class LegacyOffsetCommitKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


@message
class LegacyOffsetCommitValue:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    offset: int = field(INT64)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)


@message
class OffsetCommitKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


@message
class OffsetCommitValue:
    """Versions 0 to 4, flexible since 4."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    offset: int = field(INT64)
    leader_epoch: int = field(INT32, since=3, default=-1)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int = field(INT64, since=1, until=1, default=-1)
    topic_id: bytes = field(UUID, since=4, tag=0)


@message
class GroupMetadataKey:
    """Version 0, never flexible."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    group: str = field(STRING)


@message
class MemberMetadata:
    """Struct of GroupMetadataValue.members."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=True, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int = field(INT32, since=1, default=-1)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


@message
class GroupMetadataValue:
    """Versions 0 to 4, flexible since 4."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable=True)
    leader: str | None = field(STRING, nullable=True)
    current_state_timestamp: int = field(INT64, since=2, default=-1)
    members: list[MemberMetadata] = field(array(MemberMetadata))
