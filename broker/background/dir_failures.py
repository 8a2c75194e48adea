"""Failed log directories: the others go on serving while there are any, and the controller is told.

So clients learn that partitions have no leader. A broker that cannot tell within log.dir.failure.timeout.ms stops: its
metadata would go on to send clients here. It also stops with the last directory, and with the one of the metadata log.
Source: KIP-112, KIP-858; Kafka's BrokerLifecycleManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from broker.metadata.errors import ControllerClosed
from broker.runtime.tasks import TaskOwner
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.errors import StorageFailure

logger = logging.getLogger(__name__)

Tell = Callable[[Collection[bytes]], Awaitable[None]]
"""Records that directories, by id, are offline; returns once that is durable."""


class DirFailures:
    """Draws the conclusions from each directory that fails."""

    def __init__(
        self,
        logs: LogManager,
        is_essential: Callable[[LogDir], bool],
        tell: Tell,
        give_up: Callable[[str], None],
        timeout_ms: int,
    ) -> None:
        self._logs = logs
        self._is_essential = is_essential
        self._tell = tell
        self._give_up = give_up
        self._timeout_ms = timeout_ms
        self._tasks = TaskOwner("directory failures")
        self._offline: set[bytes] = set()  # the ids of all that have failed

    def on_lost(self, log_dir: LogDir, failure: StorageFailure) -> None:
        """Tell the controller, or give the broker up; a directory that never had an identity is known to nobody."""
        if self._is_essential(log_dir):
            self._give_up(f"the log directory of the cluster metadata failed: {failure}")
        elif not any(self._logs.online_dirs()):
            self._give_up(f"the last log directory failed: {failure}")
        elif any(log_dir.directory_id):
            self._offline.add(log_dir.directory_id)
            self._tasks.spawn(log_dir.path, self._report(log_dir.path))

    async def _report(self, path: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._tell(frozenset(self._offline))
        except TimeoutError:
            self._give_up(
                f"the controller could not be told within log.dir.failure.timeout.ms={self._timeout_ms} "
                f"that log directory {path} has failed"
            )
        except ControllerClosed as closed:
            logger.warning("failed directory not recorded dir=%s reason=%s", path, closed)  # the broker is stopping

    async def close(self) -> None:
        """Let what is not reported yet be: the next start finds out."""
        await self._tasks.close()
