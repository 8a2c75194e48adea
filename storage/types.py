"""Plain values that every room of storage shares: partition names and origins of an append."""

from enum import IntEnum
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
Position = NewType("Position", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class AppendOrigin(IntEnum):
    """Who wrote a batch; it decides how much the log checks and who assigns offsets."""

    CLIENT = 0
    """A produce request: everything is checked, the log assigns offsets."""
    COORDINATOR = 1
    """A group or transaction coordinator of this broker: control batches are legal, no sequence checks."""
    RAFT = 2
    """The metadata log: control batches and several batches are legal, the log assigns offsets."""
    REPLICATION = 3
    """A copy of the leader's bytes: offsets are kept, producer faults only warn."""
