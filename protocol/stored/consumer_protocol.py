"""What classic consumers put into JoinGroup metadata and SyncGroup assignments.

ConsumerProtocolSubscription:
- v1: adds owned_partitions.
- v2: adds generation_id.
- v3: adds rack_id.
ConsumerProtocolAssignment:
- Same layout as the version before: v1, v2, v3.
"""

from typing import ClassVar

from protocol.message import NEVER_FLEXIBLE, field, message
from protocol.primitives import BYTES, INT32, STRING, array


@message
class ConsumerProtocolSubscriptionTopicPartition:
    """Struct of ConsumerProtocolSubscription.owned_partitions."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class ConsumerProtocolSubscription:
    """Versions 0 to 3, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    topics: list[str] = field(array(STRING))
    user_data: bytes | None = field(BYTES, nullable=True, default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(
        array(ConsumerProtocolSubscriptionTopicPartition), since=1
    )
    generation_id: int = field(INT32, since=2, default=-1)
    rack_id: str | None = field(STRING, since=3, nullable=True, default=None)


@message
class ConsumerProtocolAssignmentTopicPartition:
    """Struct of ConsumerProtocolAssignment.assigned_partitions."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message
class ConsumerProtocolAssignment:
    """Versions 0 to 3, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = NEVER_FLEXIBLE

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field(
        array(ConsumerProtocolAssignmentTopicPartition)
    )
    user_data: bytes | None = field(BYTES, nullable=True, default=None)
