"""FutureLog: the copy of a partition's log that is being built in another directory, and who may touch it when.

Its move appends to it in steps, each in a thread and one at a time. While a step runs the log belongs to that thread,
between steps to the owner of all logs. Whoever must let go of the log meanwhile says so here, and it happens at the end
of the step: a descriptor that is closed under a running write may be another file's the next moment.

A future log shares no bookkeeping with the logs that are served: its counts, its removed segments and its open files
are its own until it is promoted. Source: KIP-113.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.dirs.log_dir import LogDir
from storage.env.fs import FileSystem
from storage.log.deletions import unlink_files
from storage.log.partition_log import PartitionLog
from storage.segment.names import MAX_OFFSET
from storage.types import TopicPartition


class FutureLog:
    """One future log. Everything but `unlink_removed` is called on the side that owns the logs."""

    __slots__ = ("_deferred", "_fs", "is_busy", "is_gone", "log", "log_dir")

    def __init__(self, fs: FileSystem, log: PartitionLog, log_dir: LogDir) -> None:
        self._fs = fs
        self.log = log
        self.log_dir = log_dir
        self.is_busy = False  # a step runs
        self.is_gone = False  # set once: promoted, dropped, or its directory has failed; no step may begin
        self._deferred: Callable[[], object] | None = None  # what waits for the end of a step

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.log.tp

    def begin_step(self) -> None:
        """Give the log to a thread."""
        assert not self.is_busy and not self.is_gone, self
        self.is_busy = True

    def end_step(self) -> None:
        """Take the log back, and do what had to wait. Raises: StorageFailure, of a drop that waited."""
        self.is_busy = False
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            deferred()

    def let_go(self) -> None:
        """Close the log without writing anything, once no step runs; its files stay."""
        self.leave(self.log.fail)

    def leave(self, last: Callable[[], object]) -> None:
        """Allow no further step, and do the last thing to the log once none runs. Raises: what that raises."""
        assert not self.is_gone, self
        self.is_gone = True
        if self.is_busy:
            self._deferred = last
        else:
            last()

    def unlink_removed(self) -> None:
        """Unlink the files of removed segments: nobody reads a future log, so there is no delay to wait for.

        Part of a step. Raises: StorageFailure. Blocking: disk.
        """
        unlink_files(self._fs, self.log.deletions.take_due(MAX_OFFSET))

    def __repr__(self) -> str:
        state = "gone" if self.is_gone else "busy" if self.is_busy else "idle"
        return f"FutureLog({self.tp}, {self.log_dir.path!r}, end={self.log.log_end_offset}, {state})"
