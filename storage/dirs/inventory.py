"""Inventory: which logs there are and in which directory each of them lies; what the rooms of LogManager share.

A partition has at most one current log, which is served, and one future log, a copy that is to replace it, in another
directory. A directory that fails takes its logs out of here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from storage.dirs.futures import FutureLog
from storage.dirs.log_dir import LogDir
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition


class Inventory:
    """The logs of all directories. Threads only read, but for those that create logs: each change is one assignment."""

    __slots__ = ("cleaner_offsets", "dir_of", "dirs", "futures", "logs", "rival_futures", "rivals")

    def __init__(self, dirs: Sequence[LogDir]) -> None:
        self.dirs = dirs
        self.logs: dict[TopicPartition, PartitionLog] = {}  # the current ones
        self.dir_of: dict[TopicPartition, LogDir] = {}  # of the current logs
        self.futures: dict[TopicPartition, FutureLog] = {}
        # Where compacted logs begin to be dirty, for those of `logs` that were cleaned before.
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        # Logs of another topic id that a partition has besides the one listed; from load until they are settled.
        self.rivals: list[tuple[TopicPartition, LogDir, PartitionLog]] = []
        self.rival_futures: list[FutureLog] = []

    def online_dirs(self) -> Iterator[LogDir]:
        """Iterate the directories that are trusted, in configured order."""
        return (log_dir for log_dir in self.dirs if log_dir.is_online)

    def dir_at(self, path: str | None) -> LogDir | None:
        """Return the directory that a path, as carried by StorageFailure, lies in."""
        if path is None:
            return None
        above = [one for one in self.dirs if path == one.path or path.startswith(one.path + os.sep)]
        return max(above, key=lambda one: len(one.path), default=None)  # one directory may lie in another

    def add(self, tp: TopicPartition, log: PartitionLog, log_dir: LogDir) -> None:
        """List a current log."""
        self.logs[tp] = log
        self.dir_of[tp] = log_dir

    def take(self, tp: TopicPartition) -> tuple[PartitionLog, LogDir] | None:
        """Take a current log out; None when there is none."""
        log = self.logs.pop(tp, None)
        if log is None:
            return None
        self.cleaner_offsets.pop(tp, None)
        return log, self.dir_of.pop(tp)

    def logs_in(self, log_dir: LogDir) -> list[tuple[TopicPartition, PartitionLog]]:
        """Return the current logs that lie in a directory. Any thread."""
        owned = [tp for tp, owner in list(self.dir_of.items()) if owner is log_dir]
        return [(tp, log) for tp in owned if (log := self.logs.get(tp)) is not None]

    def futures_in(self, log_dir: LogDir) -> list[FutureLog]:
        """Return the future logs that lie in a directory. Any thread."""
        return [future for future in list(self.futures.values()) if future.log_dir is log_dir]

    def all_in(self, log_dir: LogDir) -> list[PartitionLog]:
        """Return the logs that lie in a directory, the current ones last. Any thread."""
        return [
            *(future.log for future in self.futures_in(log_dir)),
            *(log for _, log in self.logs_in(log_dir)),
        ]

    def counts(self) -> Counter[str]:
        """Return how many logs, current and future, lie in each directory. Any thread."""
        counts = Counter(log_dir.path for log_dir in list(self.dir_of.values()))
        counts.update(future.log_dir.path for future in list(self.futures.values()))
        return counts

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Give each log's directory and the bytes of its segments, current and future ones; others may come and go."""
        for tp, log_dir in list(self.dir_of.items()):
            log = self.logs.get(tp)
            if log is not None:
                yield log_dir.path, log.size_bytes
        for future in list(self.futures.values()):
            yield future.log_dir.path, future.log.size_bytes

    def fail_dir(self, log_dir: LogDir, failure: StorageFailure) -> list[TopicPartition]:
        """Put a directory offline and let go of its logs; return the partitions whose current log went with it."""
        lost_logs = self.logs_in(log_dir)
        log_dir.fail(failure, partitions=len(lost_logs))
        self.rivals = [rival for rival in self.rivals if rival[1] is not log_dir]
        self.rival_futures = [future for future in self.rival_futures if future.log_dir is not log_dir]
        lost = []
        for tp, log in lost_logs:
            log.fail()
            self.take(tp)
            lost.append(tp)
        for future in self.futures_in(log_dir):
            self.futures.pop(future.tp, None)
            future.let_go()
        log_dir.release()
        return lost

    def without_failing(self, write: Callable[[], None]) -> None:
        """Repeat a write to all directories without each one that fails it; every failure takes one away."""
        while True:
            try:
                return write()
            except StorageFailure as failure:
                log_dir = self.dir_at(failure.path)
                assert log_dir is not None, failure
                self.fail_dir(log_dir, failure)
