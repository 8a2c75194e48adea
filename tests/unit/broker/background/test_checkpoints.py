"""Checkpoints: what is flushed before it is written down, and whose directory goes when a write fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.background.checkpoints import Checkpoints
from broker.runtime.pools import Pools
from config.views import LogConfig, LogManagerConfig
from protocol.records.builder import build_batch
from storage.dirs.deleted_logs import DeletedLogs
from storage.dirs.log_dir import LogDir
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.log.flush import FlushPlan
from tests.harness.hosted import NOW_MS, Hosted


class Rig:
    def __init__(self, *directories: Path) -> None:
        self.pools = Pools()
        self.hosted = Hosted(*directories, pools=self.pools)
        assert self.hosted.disk is not None
        self.checkpoints = Checkpoints(
            self.hosted.logs,
            self.hosted.manager,
            self.hosted.disk.flushes,
            self.pools,
            self.hosted.clock,
            LogManagerConfig(),
        )


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "a", tmp_path / "b")
    yield rig
    rig.pools.close()
    rig.hosted.logs.close(clean=False)


def batch(**options: Any) -> bytearray:
    return build_batch([(b"k", b"v")], timestamp=NOW_MS, **options)


def lines(directory: Path, name: str) -> list[str]:
    return (directory / name).read_text().splitlines()


async def test_the_recovery_point_written_is_what_was_flushed(rig: Rig, tmp_path: Path) -> None:
    partition = rig.hosted.create("t")
    partition.append(batch())
    await rig.checkpoints.flush()
    directory = Path(partition.log.path).parent
    assert partition.log.recovery_point == 1
    assert lines(directory, "recovery-point-offset-checkpoint") == ["0", "1", "t 0 1"]
    partition.append(batch())
    await rig.checkpoints.high_watermarks()
    assert lines(directory, "replication-offset-checkpoint") == ["0", "1", "t 0 2"]
    assert lines(directory, "recovery-point-offset-checkpoint") == ["0", "1", "t 0 1"]


async def test_the_recovery_point_is_written_soon_after_a_roll(rig: Rig) -> None:
    partition = rig.hosted.create("t", config=LogConfig(segment_bytes=100))
    path = Path(partition.log.path).parent / "recovery-point-offset-checkpoint"
    assert rig.hosted.disk is not None
    partition.append(batch())
    await rig.checkpoints.catch_up()
    assert not path.exists()
    partition.append(batch())
    await rig.hosted.disk.flushes.close()
    await rig.checkpoints.catch_up()
    assert path.read_text().splitlines() == ["0", "1", "t 0 1"]


class NoScheduler:
    """Starts nothing by itself."""

    def every(self, name: str, interval_ms: int, job: Any, first_delay_ms: int | None = None) -> None:
        pass


@pytest.mark.parametrize("was_clean", [False, True])
async def test_lines_of_logs_that_are_gone_leave_soon_after_a_crash(tmp_path: Path, was_clean: bool) -> None:
    Rig(tmp_path / "a", tmp_path / "b").hosted.logs.close(clean=was_clean)
    stale = tmp_path / "a" / "replication-offset-checkpoint"
    stale.write_text("0\n1\nmoved 0 7\n")
    rig = Rig(tmp_path / "a", tmp_path / "b")
    rig.checkpoints.start(NoScheduler())  # type: ignore[arg-type]
    await rig.checkpoints.catch_up()
    assert ("moved 0 7" in stale.read_text()) is was_clean
    rig.pools.close()
    rig.hosted.logs.close(clean=False)


async def test_only_log_starts_that_names_do_not_tell_are_written(rig: Rig) -> None:
    partition = rig.hosted.create("t")
    for _ in range(3):
        partition.append(batch())
    partition.log.increment_log_start_offset(2)
    await rig.checkpoints.save_log_starts()
    assert lines(Path(partition.log.path).parent, "log-start-offset-checkpoint") == ["0", "1", "t 0 2"]


async def test_a_flush_that_fails_takes_its_directory_and_writes_no_recovery_point_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.hosted.create("t", partitions=2)
    for partition in rig.hosted.manager:
        partition.append(batch())
    lost, kept = (rig.hosted.manager.get("t", index) for index in (0, 1))
    run = FlushPlan.run

    def fail_in_lost(plan: FlushPlan) -> None:
        if lost.log.durability.has_unflushed_data and not lost.log.is_closed:
            raise StorageFailure("I/O error", lost.log.path)
        run(plan)

    monkeypatch.setattr(FlushPlan, "run", fail_in_lost)
    await rig.checkpoints.flush()
    assert [one.tp for one in rig.hosted.manager] == [kept.tp]
    assert kept.log.recovery_point == 1
    assert lines(Path(kept.log.path).parent, "recovery-point-offset-checkpoint") == ["0", "1", f"t {kept.tp[1]} 1"]
    assert not (Path(lost.log.path).parent / "recovery-point-offset-checkpoint").exists()


async def test_a_checkpoint_that_cannot_be_written_takes_its_directory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.hosted.create("t", partitions=2)
    failing = rig.hosted.logs.dirs[0]
    write = LogDir.write_checkpoint

    def refuse(log_dir: LogDir, name: str, offsets: Any) -> None:
        if log_dir is failing:
            raise StorageFailure("I/O error", failing.path)
        write(log_dir, name, offsets)

    monkeypatch.setattr(LogDir, "write_checkpoint", refuse)
    await rig.checkpoints.high_watermarks()
    assert not failing.is_online
    assert (len(rig.hosted.manager), rig.hosted.manager.offline_count) == (1, 1)


async def test_deleted_files_are_unlinked_when_their_time_has_come(rig: Rig) -> None:
    partition = rig.hosted.create("t")
    directory = Path(partition.log.path).parent
    rig.hosted.delete("t")
    await rig.checkpoints.purge()
    assert [entry for entry in directory.iterdir() if entry.name.endswith("-delete")]
    rig.hosted.clock.wall_ms += LogConfig().file_delete_delay_ms
    await rig.checkpoints.purge()
    assert not [entry for entry in directory.iterdir() if entry.name.endswith("-delete")]


@pytest.mark.parametrize("set_by_ms", [-31_536_000_000, 31_536_000_000])
async def test_a_wall_clock_that_is_set_moves_no_deletion(rig: Rig, set_by_ms: int) -> None:
    config = LogConfig(segment_bytes=200, retention_bytes=0, file_delete_delay_ms=60_000)
    gone, kept = rig.hosted.create("gone", config=config), rig.hosted.create("kept", config=config)
    for _ in range(5):
        kept.append(batch())
    removal = kept.log.retain(NOW_MS)
    assert removal is not None
    removal.rename()
    kept.log.removed(removal)
    rig.hosted.delete("gone")
    directories = {Path(gone.log.path).parent, Path(kept.log.path)}

    def left() -> int:
        names = [entry.name for directory in directories for entry in directory.iterdir()]
        return sum(name.endswith(("-delete", ".log.deleted")) for name in names)

    waiting = left()
    assert waiting > 1
    rig.hosted.clock.set_by_ms = set_by_ms
    rig.hosted.clock.wall_ms += 59_999
    await rig.checkpoints.purge()
    assert left() == waiting
    rig.hosted.clock.wall_ms += 1
    await rig.checkpoints.purge()
    assert left() == 0


async def test_a_deletion_syncs_nothing_on_the_loop_and_is_durable_with_the_next_purge(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.hosted.create("t", partitions=6)
    synced: list[tuple[str, bool]] = []
    loop_thread = threading.get_ident()
    sync_dir = PosixFileSystem.sync_dir

    def watched(fs: PosixFileSystem, path: str) -> None:
        synced.append((path, threading.get_ident() == loop_thread))
        sync_dir(fs, path)

    monkeypatch.setattr(PosixFileSystem, "sync_dir", watched)
    rig.hosted.delete("t")
    assert synced == []
    await rig.checkpoints.purge()
    assert sorted(synced) == [(log_dir.path, False) for log_dir in rig.hosted.logs.dirs]
    await rig.checkpoints.purge()
    assert len(synced) == 2


async def test_what_is_due_is_not_unlinked_before_its_name_is_durable(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.hosted.inherited = LogConfig(file_delete_delay_ms=0)
    partition = rig.hosted.create("t")
    directory = Path(partition.log.path).parent

    def refuse(fs: PosixFileSystem, path: str) -> None:
        raise OSError(5, "I/O error")

    monkeypatch.setattr(PosixFileSystem, "sync_dir", refuse)
    rig.hosted.delete("t")
    await rig.checkpoints.purge()
    assert rig.hosted.lost_dirs == [str(directory)]
    (deleted,) = [entry for entry in directory.iterdir() if entry.name.endswith("-delete")]
    assert list(deleted.glob("*.log"))


async def test_purges_that_are_asked_for_at_once_do_not_get_into_each_others_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.hosted.inherited = LogConfig(file_delete_delay_ms=0)
    rig.hosted.create("t", partitions=8)
    rig.hosted.delete("t")
    running, most = 0, 0
    purge = DeletedLogs.purge

    def watched(logs: DeletedLogs, now_ms: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        count = purge(logs, now_ms)
        running -= 1
        return count

    monkeypatch.setattr(DeletedLogs, "purge", watched)
    await asyncio.gather(*(rig.checkpoints.purge() for _ in range(8)), rig.checkpoints.after_maintenance())
    assert most == 1
    assert rig.hosted.logs.deleted_logs.next_purge_ms() is None


async def test_idle_producers_are_forgotten(rig: Rig) -> None:
    partition = rig.hosted.create("t")
    partition.append(batch(producer_id=5, producer_epoch=0, base_sequence=0))
    rig.checkpoints.expire_producers()
    assert len(list(partition.log.active_producers())) == 1
    rig.hosted.clock.wall_ms += 2 * 86_400_000
    rig.checkpoints.expire_producers()
    assert list(partition.log.active_producers()) == []
