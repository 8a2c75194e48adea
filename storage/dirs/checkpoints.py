"""The checkpoint files of the directories: what is written of each log, current or future, into the file of its own.

A log that has left a directory leaves its files with the next write of each; see LogDir.write_checkpoint for when that
is. Where a directory held both logs of a partition, which no move makes, the current one is written.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.dirs.inventory import Inventory
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog
from storage.segment.names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)


class DirCheckpoints:
    """Writes one file per online directory.

    Every method raises StorageFailure, after the other directories were written; its path tells which one to put
    offline, on the thread that owns the logs. Blocking: disk; any thread, since offsets are only read.
    """

    __slots__ = ("_inventory",)

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def recovery_points(self) -> None:
        """Write how far each log is durable."""
        self._write(RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point_to_checkpoint)

    def high_watermarks(self) -> None:
        """Write the high watermarks."""
        self._write(HIGH_WATERMARK_CHECKPOINT, lambda log: log.high_watermark)

    def log_starts(self) -> None:
        """Write the log starts that the segment names do not tell."""
        self._write(LOG_START_CHECKPOINT, lambda log: log.log_start_to_checkpoint)

    def cleaner_offsets(self) -> None:
        """Write how far each log is clean; future logs are never cleaned."""
        logs, offsets = self._inventory.logs, self._inventory.cleaner_offsets
        self._write(CLEANER_CHECKPOINT, lambda log: offsets.get(log.tp) if logs.get(log.tp) is log else None)

    def _write(self, name: str, value: Callable[[PartitionLog], int | None]) -> None:
        first_failure: StorageFailure | None = None
        for log_dir in list(self._inventory.online_dirs()):
            logs = self._inventory.all_in(log_dir)
            offsets = {log.tp: offset for log in logs if (offset := value(log)) is not None}
            try:
                log_dir.write_checkpoint(name, offsets)
            except StorageFailure as failure:
                first_failure = first_failure or failure
        if first_failure is not None:
            raise first_failure
