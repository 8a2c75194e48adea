"""What makes a broker refuse to start with its directories; each message names the directory for the operator."""

from __future__ import annotations

from storage.errors import StorageError
from storage.types import TopicPartition


class InconsistentDirs(StorageError):
    """The directories contradict each other or the configuration."""


class NoUsableDir(StorageError):
    """Not one directory can be created, read and locked."""


class DuplicateLog(StorageError):
    """Two directories hold a current log of the same partition."""

    def __init__(self, tp: TopicPartition, first: str, second: str) -> None:
        super().__init__(
            f"Duplicate log directories for topic-partition {tp} found: {first} and {second}; "
            "take the one away that is not to be served"
        )
        self.tp = tp
        self.first = first
        self.second = second
