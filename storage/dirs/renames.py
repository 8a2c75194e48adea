"""Renames of logs' directories: aside as `-delete` or `-stray`, or to another name that a swap gives them.

A new name is durable after a sync of the log directory; of logs set aside that is the next purge of DeletedLogs.
"""

from __future__ import annotations

import logging
import os.path

from storage.dirs.deleted_logs import DeletedLogs
from storage.dirs.inventory import Inventory
from storage.dirs.loading import as_failure
from storage.dirs.log_dir import LogDir
from storage.env.clock import Clock, Rng, monotonic_ms
from storage.env.fs import FileSystem
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.segment.names import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, suffixed_dir
from storage.types import TopicPartition

logger = logging.getLogger(__name__)


class Renames:
    """Gives directories of logs new names; one that fails puts its log directory offline."""

    __slots__ = ("_clock", "_fs", "_inventory", "_rng", "deleted_logs")

    def __init__(self, fs: FileSystem, clock: Clock, rng: Rng, inventory: Inventory) -> None:
        self._fs = fs
        self._clock = clock
        self._rng = rng
        self._inventory = inventory
        self.deleted_logs = DeletedLogs(fs)

    def new_name(self, tp: TopicPartition, marker: str) -> str:
        """Return a name with a suffix that no other directory has."""
        return suffixed_dir(tp, self._rng.random_bytes(16).hex(), marker)

    def rename(self, log: PartitionLog, log_dir: LogDir, name: str) -> None:
        """Rename a log's directory within its log directory; the log follows. Raises: StorageFailure. Blocking."""
        target = os.path.join(log_dir.path, name)
        try:
            self._fs.rename(log.path, target)
        except OSError as error:
            failure = as_failure("rename", error, log.path)
            self._inventory.fail_dir(log_dir, failure)
            raise failure from error
        log.move_to_directory(target)

    def delete(self, log: PartitionLog, log_dir: LogDir, delay_ms: int) -> None:
        """Close a log, rename its directory now and let its files go after the delay. Raises: StorageFailure."""
        if self._set_aside(log, log_dir, DELETE_DIR_SUFFIX):
            self.schedule(log, log_dir, delay_ms)

    def schedule(self, log: PartitionLog, log_dir: LogDir, delay_ms: int) -> None:
        """Let the files of a log go that has its `-delete` name already."""
        self.deleted_logs.schedule(monotonic_ms(self._clock) + delay_ms, log_dir, log.path)

    def set_stray(self, log: PartitionLog, log_dir: LogDir) -> None:
        """Close a log and keep it aside for an operator; where that fails, its directory has failed."""
        logger.warning("setting a stray log aside partition=%s dir=%s", log.tp, log.path)
        try:
            self._set_aside(log, log_dir, STRAY_DIR_SUFFIX)
        except StorageFailure as failure:
            logger.error("cannot set a stray log aside partition=%s reason=%s", log.tp, failure)

    def _set_aside(self, log: PartitionLog, log_dir: LogDir, marker: str) -> bool:
        log.fail()  # nothing of it needs to be flushed
        if not log_dir.is_online:
            return False
        self.rename(log, log_dir, self.new_name(log.tp, marker))
        self.deleted_logs.note_renamed(log_dir)
        return True
