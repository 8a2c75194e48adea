"""A directory that is removed, replaced, emptied or unreadable is noticed by looking at it; the others are spared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from broker.background.dir_reports import DirReports
from broker.background.dir_watch import DirWatch
from broker.runtime.pools import Pools
from storage.dirs.log_dir import LogDir
from storage.env.clock import SeededRng
from storage.env.fs import Space
from storage.env.posix import PosixFileSystem
from tests.harness.hosted import NODE_ID, Hosted


class Controller:
    """Remembers by what it was ended."""

    def __init__(self) -> None:
        self.ended_by: Exception | None = None

    def fail(self, failure: Exception) -> None:
        self.ended_by = failure


class Bed:
    def __init__(self, tmp_path: Path) -> None:
        self.first, self.second = tmp_path / "a", tmp_path / "b"
        self.hosted = Hosted(self.first, self.second)
        self.hosted.create("t", partitions=4)
        self.controller, self.reasons = Controller(), list[str]()
        self.metadata_dir: LogDir | None = None
        self.reports = DirReports(
            self.hosted.logs, lambda log_dir: log_dir is self.metadata_dir, self.reasons.append, 60_000
        )
        self.reports.join(self.hosted.manager, cast(Any, self.controller))
        self.watch = DirWatch(self.hosted.logs, self.reports, Pools())

    async def look(self) -> None:
        for log_dir in self.hosted.logs.dirs:
            await self.watch.look(log_dir)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


async def test_directories_that_are_there_stay_and_show_their_room(bed: Bed) -> None:
    await bed.look()
    assert bed.hosted.lost_dirs == []
    assert [log_dir.path for log_dir in bed.watch.spaces] == [str(bed.first), str(bed.second)]
    assert all(0 < space.usable_bytes <= space.total_bytes for space in bed.watch.spaces.values())


def remove(path: Path) -> None:
    shutil.rmtree(path)


def replace_by_an_empty_one(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def replace_by_a_copy(path: Path) -> None:
    shutil.copytree(path, path.with_suffix(".copy"))
    shutil.rmtree(path)
    path.with_suffix(".copy").rename(path)


def replace_by_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


def move_away(path: Path) -> None:
    path.rename(path.with_suffix(".away"))


def empty(path: Path) -> None:
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@pytest.mark.parametrize(
    "harm", [remove, replace_by_an_empty_one, replace_by_a_copy, replace_by_a_file, move_away, empty]
)
async def test_a_directory_that_is_no_longer_the_one_that_was_opened_has_failed(bed: Bed, harm: Any) -> None:
    harm(bed.second)
    await bed.look()
    await bed.look()
    assert bed.hosted.lost_dirs == [str(bed.second)], "told once"
    assert (len(bed.hosted.manager), bed.hosted.manager.offline_count) == (2, 2)
    assert [log_dir.path for log_dir in bed.watch.spaces] == [str(bed.first)]


async def test_a_file_system_that_cannot_be_asked_has_failed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    def space(fs: PosixFileSystem, path: str) -> Space:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(PosixFileSystem, "space", space)
    await bed.watch.look(bed.hosted.logs.dirs[0])
    assert bed.hosted.lost_dirs == [str(bed.first)]


async def test_a_metadata_directory_of_its_own_is_watched_too(bed: Bed, tmp_path: Path) -> None:
    metadata_dir = bed.metadata_dir = LogDir(PosixFileSystem(), str(tmp_path / "metadata"))
    metadata_dir.open()
    metadata_dir.settle_identity("cluster", NODE_ID, SeededRng(1))
    await bed.watch.look(metadata_dir)
    shutil.rmtree(metadata_dir.path)
    await bed.watch.look(metadata_dir)
    await bed.watch.look(metadata_dir)
    assert len(bed.reasons) == 1, "told once"
    assert metadata_dir.path in bed.reasons[0]
    assert bed.controller.ended_by is metadata_dir.failure
    assert bed.hosted.lost_dirs == []
    assert not metadata_dir.is_online
    metadata_dir.release()
