"""Which directory takes a new log. Source: KIP-113, KIP-858, KIP-1066; Kafka's LogManager.getOrCreateLog."""

from __future__ import annotations

from protocol.uuids import RESERVED_BELOW, ZERO_UUID, format_uuid
from storage.dirs.inventory import Inventory
from storage.dirs.log_dir import LogDir
from storage.errors import StorageFailure
from storage.types import TopicPartition

MAX_PREFERRED = 10_000
"""So many partitions that are not here yet may have a directory chosen: names cost their sender nothing."""
FORGOTTEN_AT_ONCE = MAX_PREFERRED // 10
"""So many of them go when there are too many: looking for the oldest costs as much for one."""


class Placement:
    """Chooses directories, the best one first."""

    __slots__ = ("_inventory", "cordoned", "preferred")

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        # The path remembered for a log that is to be created; written by `prefer`, taken out by the creation.
        self.preferred: dict[TopicPartition, str] = {}
        self.cordoned: frozenset[str] = frozenset()  # paths that take no new logs by themselves; replaced by configs

    def prefer(self, tp: TopicPartition, path: str) -> None:
        """Remember a directory for a log that is to be created; beyond the bound the oldest ones are forgotten."""
        self.preferred.pop(tp, None)
        if len(self.preferred) >= MAX_PREFERRED:
            for oldest in tuple(self.preferred)[:FORGOTTEN_AT_ONCE]:  # a copy: threads take entries out
                self.preferred.pop(oldest, None)
        self.preferred[tp] = path

    def candidates(self, tp: TopicPartition, directory_id: bytes = ZERO_UUID) -> list[LogDir]:
        """Return the directories that may take a new log, in the order in which to try them. Any thread.

        The preferred one alone, where there is one; else the one the metadata names. Neither is given up for another,
        and neither minds being cordoned: who asked for it asked before. Else those with the fewest logs first, current
        and future ones, in the configured order where they have as many.
        """
        path = self.preferred.get(tp)
        if path is not None:
            return [log_dir for log_dir in self._inventory.online_dirs() if log_dir.path == path]
        if is_real(directory_id):
            named = [log_dir for log_dir in self._inventory.dirs if log_dir.directory_id == directory_id]
            if named:
                return [log_dir for log_dir in named if log_dir.is_online]
        return self._by_fewest()

    def _by_fewest(self) -> list[LogDir]:
        online = list(self._inventory.online_dirs())
        if len(online) == 1:
            return online
        # Whoever places replicas leaves out a broker whose directories are all cordoned; one may be under way.
        open_dirs = [log_dir for log_dir in online if log_dir.path not in self.cordoned] or online[:1]
        counts = self._inventory.counts()
        return sorted(open_dirs, key=lambda log_dir: counts[log_dir.path])

    def ensure_not_elsewhere(self, tp: TopicPartition, directory_id: bytes) -> None:
        """Refuse to begin the log of an older partition anew: its records may lie where they cannot be served from.

        directory_id is where the metadata says that the log is. Raises: StorageFailure. Source: KIP-858.
        """
        future = self._inventory.futures.get(tp)
        if future is not None:
            raise StorageFailure(f"only an unfinished copy of the log of {tp} is here: {future.log.path}")
        away = [log_dir.path for log_dir in self._inventory.dirs if not log_dir.is_online]
        if away:
            raise StorageFailure(f"no log of {tp} is here, and log directories are offline: {', '.join(away)}")
        if is_real(directory_id) and all(log_dir.directory_id != directory_id for log_dir in self._inventory.dirs):
            raise StorageFailure(
                f"the log of {tp} is in the directory with directory.id {format_uuid(directory_id)}, "
                "which is none of log.dirs"
            )


def is_real(directory_id: bytes) -> bool:
    """Tell whether an id names a directory; the reserved ones say that there is none, or that nobody knows it."""
    return int.from_bytes(directory_id, "big") >= RESERVED_BELOW
