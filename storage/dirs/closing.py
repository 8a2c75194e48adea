"""Closing the logs of a directory, cut into pieces that any number of threads may work on, as loading them is.

Closing waits for the disk several times a log, so threads help even where each of them waits most of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from storage.dirs.log_dir import LogDir
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog


class DirClosing:
    """The logs of one directory that are still open."""

    def __init__(self, log_dir: LogDir, logs: Iterable[PartitionLog]) -> None:
        self.log_dir = log_dir
        self._queue = deque(logs)
        self.log_count = len(self._queue)  # at the beginning
        self.failure: StorageFailure | None = None  # set by the first log that cannot be closed; the others stay open

    def work(self) -> None:
        """Close one log after the other until none is left. Blocking: disk; any thread, several at once."""
        while self.failure is None:
            try:
                log = self._queue.popleft()
            except IndexError:
                return
            try:
                log.close()
            except StorageFailure as failure:
                self.failure = failure
