"""DirSyncs: makes the names of folders in log directories durable; who asks while a sync runs shares the next one."""

from __future__ import annotations

from functools import partial

from broker.runtime.coalesced import Coalesced
from broker.runtime.pools import Pools
from storage.dirs.log_dir import LogDir


class DirSyncs:
    """Syncs log directories, each in its own pool."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._syncs: dict[LogDir, Coalesced] = {}

    async def sync(self, log_dir: LogDir) -> None:
        """Return when every name given so far is durable. Raises: StorageFailure; the directory has failed then."""
        sync = self._syncs.get(log_dir)
        if sync is None:
            sync = self._syncs[log_dir] = Coalesced(partial(self._pools.io, log_dir.path, log_dir.sync))
        await sync()
