"""Loads and hints run in threads, and keep the files they are about."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from broker.net import pages
from broker.net.pages import PageLoader
from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.segment.region import FileRegion


async def test_a_load_gives_its_hint_first_and_a_later_hint_holds_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int, int]] = []

    def note(kind: str, fd: int, position: int, size: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert fd >= 0
        done.append((kind, position, size))

    monkeypatch.setattr(pages, "load", lambda *given: note("load", *given))
    monkeypatch.setattr(pages, "will_need", lambda *given: note("hint", *given))
    path = tmp_path / "log"
    path.write_bytes(bytes(100))
    file = PosixFileSystem().open(str(path))
    region = FileRegion(file, 0, 100)
    pools, tasks = Pools(), TaskOwner("test")
    loader = PageLoader(pools, tasks, 10, pytest.fail)
    await loader.load(region, 5, 20, 45)
    await loader.load(region, 25, 20, 0)
    assert done == [("hint", 5, 45), ("load", 5, 20), ("load", 25, 20)]
    loader.read_ahead(region, 45, 90)
    region.release()
    file.close()
    assert file.fd >= 0
    while len(tasks):
        await next(iter(tasks._tasks))
    assert done[3:] == [("hint", 45, 90)]
    assert file.fd < 0
    pools.close()


async def test_a_disk_that_cannot_read_what_is_being_sent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, position: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(pages, "load", refuse)
    path = tmp_path / "log"
    path.write_bytes(bytes(100))
    file = PosixFileSystem().open(str(path))
    region = FileRegion(file, 0, 100)
    pools, failures = Pools(), []
    loader = PageLoader(pools, TaskOwner("test"), 10, failures.append)
    with pytest.raises(StorageFailure, match="Input/output error"):
        await loader.load(region, 0, 100, 0)
    assert [failure.path for failure in failures] == [str(path)]
    region.release()
    file.close()
    pools.close()
