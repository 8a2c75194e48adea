"""Creations: begins copies. Those asked for together are made by one thread, and share the sync of their names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from broker.runtime.gathered import Gathered
from broker.runtime.pools import Pools
from config.views import LogConfig
from storage.dirs.futures import FutureLog
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.errors import StorageError, StorageFailure
from storage.types import TopicPartition


class _Wanted(NamedTuple):
    tp: TopicPartition
    config: LogConfig


class Creations:
    """Creates future logs in all directories."""

    def __init__(self, logs: LogManager, pools: Pools) -> None:
        self._logs = logs
        self._pools = pools
        self._jobs: dict[LogDir, Gathered[_Wanted, FutureLog]] = {}

    async def create(self, tp: TopicPartition, log_dir: LogDir, config: LogConfig) -> FutureLog:
        """Begin a copy; its name is durable when this returns. Raises: as LogManager.create_future."""
        job = self._jobs.get(log_dir)
        if job is None:
            job = self._jobs[log_dir] = Gathered("creations", partial(self._run, log_dir))
        return await job(_Wanted(tp, config))

    async def _run(self, log_dir: LogDir, wanted: Sequence[_Wanted]) -> Sequence[FutureLog | Exception]:
        return await self._pools.io(log_dir.path, partial(self._create_all, log_dir, wanted))

    def _create_all(self, log_dir: LogDir, wanted: Sequence[_Wanted]) -> list[FutureLog | Exception]:
        made: list[FutureLog | Exception] = []
        for tp, config in wanted:
            try:
                made.append(self._logs.create_future(tp, log_dir, config))
            except StorageError as error:
                made.append(error)
        try:
            log_dir.sync()
        except StorageFailure as failure:
            return [one if isinstance(one, Exception) else failure for one in made]
        return made
