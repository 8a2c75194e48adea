"""What the controller is told of log directories: where new replicas landed, what is cordoned, what has failed.

While a directory is left the broker goes on, and clients learn from the metadata that the partitions of the failed one
have no leader. A broker that cannot report this within log.dir.failure.timeout.ms stops: its metadata would go on to
send clients here. It also stops with the last directory, and with the one that holds the metadata log.
Source: KIP-112, KIP-858, KIP-1066; Kafka's BrokerLifecycleManager, AssignmentsManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from broker.metadata.controller.directories import Whereabouts
from broker.metadata.controller.features import tells_cordoned_dirs
from broker.metadata.controller.run import Controller
from broker.metadata.errors import ControllerClosed
from broker.metadata.image import BROKER_RESOURCE, ClusterImage, Delta
from broker.partition.manager import PartitionManager
from broker.runtime.tasks import TaskOwner
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.errors import StorageFailure

logger = logging.getLogger(__name__)


class DirReports:
    """Reports to the controller, or gives the broker up. The parts it stands between are made after it: see `join`."""

    def __init__(
        self, logs: LogManager, is_essential: Callable[[LogDir], bool], give_up: Callable[[str], None], timeout_ms: int
    ) -> None:
        self._logs = logs
        self._is_essential = is_essential
        self._give_up = give_up
        self._timeout_ms = timeout_ms
        self._tasks = TaskOwner("directory reports")
        self._offline: set[bytes] = set()  # the ids of all that have failed
        self._partitions: PartitionManager
        self._controller: Controller

    def join(self, partitions: PartitionManager, controller: Controller) -> None:
        """Be told who knows where the logs are, and whom to tell; before anything can be reported."""
        self._partitions = partitions
        self._controller = controller

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Report where new replicas landed whose place the metadata could not know, and what is cordoned by now."""
        landed = self._partitions.landed(delta)
        if landed:
            self._tasks.spawn("landed", self._report_landed(landed))
        may_differ = delta.features_changed or any(kind == BROKER_RESOURCE for kind, _ in delta.changed_configs)
        if may_differ and tells_cordoned_dirs(image):
            self._tasks.spawn("cordoned", self._report_cordoned())

    def fail(self, log_dir: LogDir, failure: StorageFailure) -> None:
        """Take a directory offline, be it one of `log.dirs` or the metadata log's own."""
        if log_dir in self._logs.dirs:
            self._partitions.fail_dir(log_dir, failure)
        elif log_dir.is_online:
            log_dir.fail(failure)
            self.on_lost(log_dir, failure)

    def on_lost(self, log_dir: LogDir, failure: StorageFailure) -> None:
        """Draw the conclusion from a directory that has failed; one that never had an identity is known to nobody."""
        if self._is_essential(log_dir):
            self._controller.fail(failure)
            self._give_up(f"the log directory of the cluster metadata failed: {failure}")
        elif not any(self._logs.online_dirs()):
            self._give_up(f"the last log directory failed: {failure}")
        elif any(log_dir.directory_id):
            self._offline.add(log_dir.directory_id)
            self._tasks.spawn(log_dir.path, self._report_offline(log_dir.path))

    async def _report_landed(self, landed: Whereabouts) -> None:
        with suppress(ControllerClosed):  # the broker stops, and the next start finds them where they are
            await self._controller.assign_directories(landed)

    async def _report_cordoned(self) -> None:
        cordoned = [one.directory_id for one in self._logs.online_dirs() if one.path in self._logs.cordoned]
        with suppress(ControllerClosed):  # the broker stops, and the next start tells
            await self._controller.cordon_directories(cordoned)

    async def _report_offline(self, path: str) -> None:
        controller = self._controller
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await controller.directories_offline(
                    frozenset(self._offline), self._partitions.whereabouts(controller.image)
                )
        except TimeoutError:
            self._give_up(
                f"the controller could not be told within log.dir.failure.timeout.ms={self._timeout_ms} "
                f"that log directory {path} has failed"
            )
        except ControllerClosed as closed:  # the broker stops, and the next start finds out
            logger.warning("failed directory not recorded dir=%s reason=%s", path, closed)

    async def close(self) -> None:
        """Let be what is not reported yet: the next start finds out."""
        await self._tasks.close()
