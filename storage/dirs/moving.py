"""The pieces of a move between directories: the copy is begun, given up, and takes the place of the log it copies.

The order of a swap, all of it while nobody appends, the copy being whole and flushed:

1. `retire`: the directory of the current log becomes `-delete`; the log goes on serving reads;
2. `LogDir.sync`: that name is durable;
3. `promote`: the directory of the copy gets the partition's name, the copy is the current log.

So a crash leaves both logs, or the copy alone under one of two names, and never two logs under the partition's name.
Whoever runs a swap lets the metadata name the directory of the copy before step 1, by which a start knows that the copy
which it finds alone is the log. Where step 3 fails, `restore` takes step 1 back.
"""

from __future__ import annotations

import os.path
from functools import partial
from typing import NamedTuple

from config.views import LogConfig
from storage.dirs.futures import FutureLog
from storage.dirs.inventory import Inventory
from storage.dirs.log_dir import LogDir
from storage.dirs.opening import Opening
from storage.dirs.renames import Renames
from storage.env.fs import FileSystem
from storage.errors import LogClosed, StorageFailure
from storage.log.partition_log import PartitionLog
from storage.segment.names import DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, partition_dir
from storage.types import TopicPartition


class Retired(NamedTuple):
    """A current log whose directory is called `-delete` already, while it still serves reads."""

    log: PartitionLog
    log_dir: LogDir


class Moving:
    """Creates, drops and promotes future logs."""

    __slots__ = ("_fs", "_inventory", "_opening", "_renames", "_unsynced_drops")

    def __init__(self, fs: FileSystem, inventory: Inventory, opening: Opening, renames: Renames) -> None:
        self._fs = fs
        self._inventory = inventory
        self._opening = opening
        self._renames = renames
        # Where the future log of a partition was dropped since the last one was created.
        self._unsynced_drops: dict[TopicPartition, LogDir] = {}

    def create_future(self, tp: TopicPartition, log_dir: LogDir, config: LogConfig) -> FutureLog:
        """Begin a copy of the current log in another directory, at the log start of that one.

        Its name is durable after the next `sync` of the directory, or when the copy is first flushed.
        If the partition or one of the directories goes meanwhile it is the caller's to drop what this returns.
        Raises: LogClosed when it has gone before, be it that another one lies in this directory by now;
        StorageFailure; and then there is no future log; putting a directory offline is the caller's, on the
        side that owns the logs. Blocking: disk; any thread.
        """
        current = self._inventory.logs.get(tp)
        if current is None or self._inventory.dir_of.get(tp) is log_dir:
            raise LogClosed(str(tp))
        assert tp not in self._inventory.futures, tp
        self._settle_drop(tp)
        path = os.path.join(log_dir.path, self._renames.new_name(tp, FUTURE_DIR_SUFFIX))
        log_dir.ensure_present()
        log = self._opening.create_future(path, config, current)
        future = FutureLog(self._fs, log, log_dir)
        self._inventory.futures[tp] = future
        if not log_dir.is_online and self._inventory.futures.pop(tp, None) is not None:  # failed before it was listed
            log.fail()
        if not log_dir.is_online:
            raise StorageFailure(f"log directory {log_dir.path} went offline", log_dir.path)
        return future

    def _settle_drop(self, tp: TopicPartition) -> None:
        """Make sure that a copy which was dropped before does not come back with a power failure: two are too many."""
        dropped_in = self._unsynced_drops.get(tp)
        if dropped_in is None:
            return
        if dropped_in.is_online:
            dropped_in.sync()
        self._unsynced_drops.pop(tp, None)

    def drop_future(self, tp: TopicPartition, *, delay_ms: int) -> None:
        """Give a copy up: it is out of the map at once, renamed when no step runs, unlinked after the delay.

        Until the step has ended no other copy may be begun. Raises: StorageFailure. Blocking: one rename.
        """
        future = self._inventory.futures.pop(tp, None)
        if future is None:
            return
        self._unsynced_drops[tp] = future.log_dir
        future.leave(partial(self._renames.delete, future.log, future.log_dir, delay_ms))

    # --- the swap ---

    def retire(self, tp: TopicPartition) -> Retired:
        """Take the partition's name from its current log. Raises: StorageFailure. Blocking: one rename."""
        log, log_dir = self._inventory.logs[tp], self._inventory.dir_of[tp]
        self._renames.rename(log, log_dir, self._renames.new_name(tp, DELETE_DIR_SUFFIX))
        return Retired(log, log_dir)

    def restore(self, tp: TopicPartition, retired: Retired) -> None:
        """Give the name back where the directory of the copy has failed. Raises: StorageFailure. Blocking: rename."""
        if retired.log_dir.is_online:
            self._renames.rename(retired.log, retired.log_dir, partition_dir(tp))

    def promote(self, tp: TopicPartition, retired: Retired | None = None) -> PartitionLog:
        """Make the future log the current one, under the partition's name; return it.

        The log that it replaces is closed and its files go after its file.delete.delay.ms. Without one there must be no
        current log. How far the log is clean goes with it. Raises: StorageFailure, and then nothing has changed but
        that the future log is gone with its directory. Blocking: one rename.
        """
        future = self._inventory.futures.get(tp)
        if future is None or future.is_gone:
            raise StorageFailure(f"the future log of {tp} is gone with its directory")
        assert not future.is_busy and (retired is not None or tp not in self._inventory.logs), future
        self._renames.rename(future.log, future.log_dir, partition_dir(tp))
        del self._inventory.futures[tp]
        future.is_gone = True
        self._opening.join(future.log)
        self._inventory.add(tp, future.log, future.log_dir)
        self._unsynced_drops.pop(tp, None)
        if retired is not None:
            retired.log.fail()  # whoever reads it holds pins
            if retired.log_dir.is_online:
                self._renames.schedule(retired.log, retired.log_dir, retired.log.config.file_delete_delay_ms)
        return future.log
