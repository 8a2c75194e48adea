"""Looks at the log directories every other second: are they still there, and how much room have they?

A directory that was removed or unmounted gives no error by itself: what is written to its open files is lost with them,
and a log that nobody writes to would never notice. One look a directory at a time, each beside the loop, so that a disk
that hangs delays no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from broker.background.dir_reports import DirReports
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.env.fs import Space
from storage.errors import StorageFailure

WATCH_INTERVAL_MS = 2_000
"""Three system calls a directory; Kafka finds out with its checkpoint of high watermarks, every five seconds."""


class DirWatch:
    """Watches the directories that are online."""

    def __init__(self, logs: LogManager, reports: DirReports, pools: Pools) -> None:
        self._logs = logs
        self._reports = reports
        self._pools = pools
        self._spaces: dict[LogDir, Space] = {}  # of each directory when it was last looked at

    def start(self, scheduler: Scheduler, metadata_dir: LogDir) -> None:
        """Begin to look at each directory, that of the metadata log included."""
        for log_dir in dict.fromkeys((*self._logs.dirs, metadata_dir)):
            if log_dir.is_online:
                job = partial(self.look, log_dir)
                scheduler.every(f"watch {log_dir.path}", WATCH_INTERVAL_MS, job, first_delay_ms=0)

    @property
    def spaces(self) -> Mapping[LogDir, Space]:
        """The room on the file systems of the directories of `log.dirs` that are online, as it was a moment ago."""
        return {log_dir: self._spaces[log_dir] for log_dir in self._logs.online_dirs() if log_dir in self._spaces}

    async def look(self, log_dir: LogDir) -> None:
        """Look at one directory; if it is not the one that was opened, or cannot be looked at, it has failed."""
        if not log_dir.is_online:
            return
        try:
            self._spaces[log_dir] = await self._pools.io(log_dir.path, partial(_look, log_dir))
        except StorageFailure as failure:
            self._reports.fail(log_dir, failure)


def _look(log_dir: LogDir) -> Space:
    log_dir.ensure_present()
    return log_dir.space()
