"""What the clients of the workload have in common: who they are, their journal, their values, when they leave."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.history.gate import Gate
from tests.history.journal import Journal
from tests.history.model import Partition

# Keys pad the records, so that segments roll; values stay short, since journals hold them.
LONGEST_PADDING_BYTES = 3000
LONGEST_REST_S = 0.04


@dataclass(frozen=True)
class ActorOptions:
    """Who an actor is; `settings` are its kind's own."""

    bootstrap: str
    name: str  # also its transactional id or group instance id
    life: str  # unique to this process
    journal: str
    topics: dict[str, int]  # with their numbers of partitions
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        """Give the broker's host and port."""
        host, port = self.bootstrap.split(":")
        return host, int(port)


class Actor(ABC):
    """Repeats a step until it shall leave."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        self.options = options
        self.settings = options.settings
        self.leaving = gate.leaving
        self.journal = Journal(Path(options.journal), options.life)
        self.rng = random.Random(options.life)
        self._values = 0

    def run(self) -> None:
        """Act from the start to a clean end."""
        while not self.leaving.is_set():
            self.step()
        self.finish()

    @abstractmethod
    def step(self) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...

    def partition(self) -> Partition:
        """Choose where to write."""
        topic = self.rng.choice(sorted(self.options.topics))
        return topic, self.rng.randrange(self.options.topics[topic])

    def value(self) -> str:
        """Make the next value."""
        self._values += 1
        return f"{self.options.life}:{self._values}"

    def padding(self) -> bytes:
        """Make a key that nobody looks at."""
        return self.rng.randbytes(self.rng.randint(1, LONGEST_PADDING_BYTES))

    def rest(self) -> None:
        """Leave the others some time."""
        self.leaving.wait(self.rng.uniform(0, LONGEST_REST_S))


class Reader(Actor):
    """Notes what it reads, session by session."""

    def __init__(self, options: ActorOptions, gate: Gate) -> None:
        super().__init__(options, gate)
        self.is_committed: bool = self.settings["is_committed"]
        self._sessions: dict[Partition, str] = {}
        self.uncommitted = 0

    @property
    def isolation_level(self) -> str:
        """Give it as clients spell it."""
        return "read_committed" if self.is_committed else "read_uncommitted"

    def forget(self, partitions: list[Partition]) -> None:
        """End the sessions of partitions: what comes next is read from another position."""
        for partition in partitions:
            self._sessions.pop(partition, None)

    def note(self, partition: Partition, offset: int, value: bytes) -> None:
        """Note one record."""
        if partition not in self._sessions:
            self._sessions[partition] = self.journal.session(partition, is_committed=self.is_committed)
        self.journal.read(self._sessions[partition], offset, value.decode())
        self.uncommitted += 1
