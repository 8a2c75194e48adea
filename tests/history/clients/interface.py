"""What a transforming process asks of its client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.history.model import Partition

SESSION_MS = 2000
HEARTBEAT_MS = 300
TRANSACTION_MS = 20000
POLL_S = 0.1


class MustAbort(Exception):
    """The transaction cannot be committed; the producer can go on after an abort."""


class MustEnd(Exception):
    """The client has met an error after which it must be made anew."""


@dataclass(frozen=True)
class Options:
    """What a process is told: whom it talks to, and who it is."""

    bootstrap: str
    source: str
    target: str
    partitions: int  # of either
    group: str
    worker: str  # also its transactional id
    life: str  # unique to this process
    journal: str
    protocol: str = "classic"
    is_static: bool = False


class Input(NamedTuple):
    """A record of the source."""

    partition: int
    offset: int
    value: str


class TransformClient(ABC):
    """A consumer and a transactional producer, initialized."""

    def __init__(self, options: Options) -> None:
        self.options = options
        # Told of the partitions whose position is no longer where the last record left it.
        self.when_moved: Callable[[list[Partition]], None] = lambda partitions: None

    @abstractmethod
    def poll(self, limit: int) -> list[Input]:
        """Give what is there, at most `limit` records, none after a while."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, partition: int, value: str, acknowledged: Callable[[int], None]) -> None:
        """Send to the target; `acknowledged` gets the offset."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything sent is answered."""

    @abstractmethod
    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        """Send the source's next offsets, as member of the group that was polled last."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def rewind(self) -> None:
        """Go back to the committed offsets, or to the start of what has none."""

    @abstractmethod
    def close(self) -> None: ...
