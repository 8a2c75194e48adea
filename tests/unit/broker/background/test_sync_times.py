"""Every sync of the process counts, for its directory, from any thread."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.background.sync_times import SyncTimes
from storage.env.posix import PosixFileSystem


class SlowDisk:
    """Syncs that take as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.takes_ns = 2_000_000
        for name in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, name, self._sync)

    def _sync(self, fd: int) -> None:
        self.now_ns += self.takes_ns


def test_files_small_files_and_folders_count_for_the_directory_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch)
    times = SyncTimes(lambda: disk.now_ns)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    times.follow((a, b))
    fs = PosixFileSystem(times.run)
    fs.make_dirs(f"{a}/t-0")
    fs.make_dirs(b)
    file = fs.open(f"{a}/t-0/00.log", create=True)
    file.sync()
    fs.sync_dir(f"{a}/t-0")
    fs.sync_dir(a)
    fs.write_file(f"{a}/checkpoint", b"x")
    fs.write_file(f"{a}/unsynced", b"x", sync=False)
    disk.takes_ns = 40_000_000
    fs.sync_dir(b)
    fs.sync_dir(str(tmp_path))
    file.close()
    of_a, of_b = times.by_dir[a], times.by_dir[b]
    assert (sum(of_a.counts), of_a.total) == (4, pytest.approx(0.008))
    assert (sum(of_b.counts), of_b.total) == (1, pytest.approx(0.04))


def test_a_sync_that_fails_is_not_one_that_was_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = SyncTimes(lambda: 0)
    times.follow((str(tmp_path),))

    def fails(fd: int) -> None:
        raise OSError(5, "bad disk")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="bad disk"):
        PosixFileSystem(times.run).sync_dir(str(tmp_path))
    assert sum(times.by_dir[str(tmp_path)].counts) == 0


def test_no_sync_of_any_thread_is_lost() -> None:
    times = SyncTimes(lambda: 0)
    times.follow(("/data",))
    with ThreadPoolExecutor(8) as threads:
        for _ in range(2000):
            threads.submit(times.run, lambda fd: None, 3, "/data/t-0/1.log")
    assert sum(times.by_dir["/data"].counts) == 2000


def test_following_again_keeps_what_was_counted() -> None:
    times = SyncTimes(lambda: 0)
    times.follow(("/data",))
    times.run(lambda fd: None, 3, "/data")
    times.follow(("/data", "/more"))
    assert [sum(one.counts) for one in times.by_dir.values()] == [1, 0]
