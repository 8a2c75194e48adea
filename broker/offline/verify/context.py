"""What is known of a log before its files are read, from the directory's checkpoints and the cluster's metadata."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from storage.segment.names import CLUSTER_METADATA_TOPIC
from storage.types import TopicPartition

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
COMPACTED_TOPICS = (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)


class Content(Enum):
    """Whose records a log holds."""

    CLIENTS = "clients"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    METADATA = "metadata"


_BY_TOPIC = {
    GROUP_TOPIC: Content.GROUPS,
    TRANSACTION_TOPIC: Content.TRANSACTIONS,
    CLUSTER_METADATA_TOPIC: Content.METADATA,
}


class LogContext(NamedTuple):
    """One log, before it is read."""

    tp: TopicPartition
    directory: str
    is_clean: bool = True
    """The broker closed it: nothing is excused."""
    recovery_point: int = 0
    """What lies below is durable, however the broker stopped."""
    log_start: int = 0
    """What lies below is deleted, be it there or not."""
    may_have_gaps: bool = False
    """It is or was compacted."""
    topic_id: bytes | None = None
    """What the cluster's metadata says of the topic."""

    @property
    def content(self) -> Content:
        """Whose records it holds."""
        return _BY_TOPIC.get(self.tp.topic, Content.CLIENTS)

    def is_excused(self, offset: int) -> bool:
        """Tell whether an unclean stop may have left what is wrong at an offset, so that recovery mends it."""
        return not self.is_clean and offset >= self.recovery_point

    def is_rebuilt(self, next_base: int | None) -> bool:
        """Tell whether recovery makes the indexes anew of a segment, behind which another one begins, or none.

        That is so where it reaches above the recovery point; those of one that ends there are completed.
        """
        return not self.is_clean and (next_base is None or next_base >= self.recovery_point)


class LogResult(NamedTuple):
    """One log, after it was read."""

    tp: TopicPartition
    directory: str
    start_offset: int = 0
    end_offset: int = 0
    is_damaged: bool = False
    """Where it ends is not known for sure."""
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
