"""A recorded history: what clients asked of a broker, what they were told, and what they were given to read.

Every value is written once by intention, so it names its write. Nothing here says how the history was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Partition = tuple[str, int]


class Answer(Enum):
    """What a producer learned about a write."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"  # an error that says that nothing was stored
    UNKNOWN = "unknown"  # no answer, or one that leaves both possible


class Ending(Enum):
    """What a producer learned about a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # or never asked to be committed, which comes to the same
    UNKNOWN = "unknown"  # a commit was asked for and not answered


class Producer(NamedTuple):
    """One life of a producer; its writes are in the history in the order in which it sent them."""

    name: str
    may_repeat: bool = False  # sends again without a sequence number: a value may be there twice
    is_ordered: bool = True


class Write(NamedTuple):
    """One record sent."""

    producer: str
    partition: Partition
    value: str
    answer: Answer
    offset: int | None = None  # as acknowledged
    transaction: str | None = None


class Transaction(NamedTuple):
    """One transaction; `commit_asked_at` is when the producer first asked, on the clock of `Read.at`."""

    name: str
    ending: Ending
    commit_asked_at: float | None = None


class Session(NamedTuple):
    """One consumer's way through one partition without a seek: what follows a rebalance is another session."""

    name: str
    partition: Partition
    is_committed: bool  # isolation.level=read_committed


class Read(NamedTuple):
    """One record received; the reads of a session are in the history in the order in which it got them."""

    session: str
    offset: int
    value: str
    at: float | None = None


class WholeLog(NamedTuple):
    """A partition read from its first offset to its end, after everything else."""

    partition: Partition
    is_committed: bool
    records: tuple[tuple[int, str], ...]


@dataclass
class History:
    """Everything that was recorded of one run."""

    producers: dict[str, Producer] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    logs: list[WholeLog] = field(default_factory=list)
