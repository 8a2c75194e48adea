"""Copies that are begun together: one sync for all their names, and each caller's own failure."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.background.moves.creations import Creations
from config.views import LogConfig
from storage.errors import LogClosed, StorageFailure
from storage.types import TopicPartition

TPS = [TopicPartition("t", number) for number in range(4)]


class Disk:
    """What Creations uses of the logs, of a log directory and of its threads."""

    path = "/disk"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failures: dict[TopicPartition, Exception] = {}
        self.broken: StorageFailure | None = None

    def create_future(self, tp: TopicPartition, log_dir: Any, config: LogConfig) -> Any:
        assert log_dir is self
        if tp in self.failures:
            raise self.failures[tp]
        self.done.append(str(tp))
        return SimpleNamespace(tp=tp)

    def sync(self) -> None:
        self.done.append("sync")
        if self.broken is not None:
            raise self.broken

    async def io(self, path: str, call: Any) -> Any:
        assert path == self.path
        return call()


async def create(disk: Disk) -> list[Any]:
    creations = Creations(disk, disk)  # type: ignore[arg-type]
    work = (creations.create(tp, disk, LogConfig()) for tp in TPS)  # type: ignore[arg-type]
    return await asyncio.gather(*work, return_exceptions=True)


async def test_all_that_come_together_share_a_sync_that_follows_them() -> None:
    disk = Disk()
    assert [future.tp for future in await create(disk)] == TPS
    assert disk.done == [*map(str, TPS), "sync"]


async def test_what_cannot_be_begun_keeps_nobody_else_from_it() -> None:
    disk = Disk()
    disk.failures[TPS[1]] = LogClosed("it has gone")
    first, second, *others = await create(disk)
    assert [one.tp for one in (first, *others)] == [TPS[0], *TPS[2:]] and isinstance(second, LogClosed)
    assert disk.done[-1] == "sync"


async def test_nothing_is_begun_where_its_name_cannot_be_made_durable() -> None:
    disk = Disk()
    disk.failures[TPS[1]] = StorageFailure("another directory has failed", "/other")
    disk.broken = StorageFailure("cannot sync", "/disk")
    outcomes = await create(disk)
    assert [outcome.path for outcome in outcomes] == ["/disk", "/other", "/disk", "/disk"]


async def test_an_error_of_ours_ends_no_later_creation() -> None:
    disk = Disk()
    disk.failures[TPS[0]] = AssertionError("a mistake")
    creations = Creations(disk, disk)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        await creations.create(TPS[0], disk, LogConfig())  # type: ignore[arg-type]
    assert (await creations.create(TPS[1], disk, LogConfig())).tp == TPS[1]  # type: ignore[arg-type]
