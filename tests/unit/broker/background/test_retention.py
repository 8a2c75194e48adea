"""Retention over real logs and pools, on a clock that the test moves."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.background.checkpoints import Checkpoints
from broker.background.retention import Retention
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from config.views import LogConfig, LogManagerConfig
from protocol.records.builder import build_batch
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.hosted import NOW_MS, Hosted
from tests.harness.wakes import Wakes

RETENTION_MS = 1000
DELAY_MS = 500


class Rig:
    def __init__(self, *directories: Path, config: LogManagerConfig | None = None) -> None:
        self.pools = Pools()
        self.hosted = Hosted(*directories, pools=self.pools)
        assert self.hosted.disk is not None
        self.busy: set[TopicPartition] = set()
        clock = self.hosted.clock
        config = config or LogManagerConfig()
        self.checkpoints = Checkpoints(
            self.hosted.logs, self.hosted.manager, self.hosted.disk.flushes, self.pools, clock, config
        )
        self.retention = Retention(
            self.hosted.manager, self.pools, clock, config, self.checkpoints, is_busy=self.busy.__contains__
        )

    def filled(self, name: str = "t", *, count: int = 3, **config: Any) -> Partition:
        """Create a topic of one batch a segment, `count` of them, all as old as the clock."""
        settings = {"retention_ms": RETENTION_MS, "file_delete_delay_ms": DELAY_MS, "segment_bytes": 100, **config}
        partition = self.hosted.create(name, config=LogConfig(**settings))
        for _ in range(count):
            partition.append(build_batch([(b"k", b"v" * 20)], timestamp=self.hosted.clock.wall_ms))
        return partition

    def pass_time(self, milliseconds: int) -> None:
        self.hosted.clock.wall_ms += milliseconds


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "a", tmp_path / "b")
    yield rig
    rig.pools.close()
    rig.hosted.logs.close(clean=False)


def names(partition: Partition, ending: str) -> list[str]:
    return sorted(path.name for path in Path(partition.log.path).iterdir() if path.name.endswith(ending))


async def test_expired_files_carry_the_suffix_until_the_delay_has_passed(rig: Rig) -> None:
    partition = rig.filled()
    await rig.retention.run_once()
    assert names(partition, ".deleted") == []
    rig.pass_time(RETENTION_MS + 1)
    await rig.retention.run_once()
    assert partition.log.log_start_offset == 3
    assert names(partition, ".log") == [f"{3:020d}.log"]
    assert f"{0:020d}.log.deleted" in names(partition, ".deleted")
    rig.pass_time(DELAY_MS - 1)
    await rig.checkpoints.purge()
    assert names(partition, ".deleted")
    rig.pass_time(1)
    await rig.checkpoints.purge()
    assert names(partition, ".deleted") == []


async def test_without_a_delay_nothing_is_left_after_the_pass(rig: Rig) -> None:
    partition = rig.filled(file_delete_delay_ms=0)
    rig.pass_time(RETENTION_MS + 1)
    await rig.retention.run_once()
    assert names(partition, ".deleted") == []


async def test_an_internal_compacted_topic_is_touched_by_neither_time_nor_size(rig: Rig) -> None:
    partition = rig.filled("__consumer_offsets", cleanup_policy=frozenset({"compact"}), retention_bytes=0)
    rig.pass_time(1 << 50)
    await rig.retention.run_once()
    assert partition.log.log_start_offset == 0


async def test_a_partition_that_is_being_compacted_is_left_for_the_next_pass(rig: Rig) -> None:
    partition = rig.filled(cleanup_policy=frozenset({"compact", "delete"}))
    rig.pass_time(RETENTION_MS + 1)
    rig.busy.add(partition.tp)
    await rig.retention.run_once()
    assert partition.log.log_start_offset == 0
    rig.busy.clear()
    await rig.retention.run_once()
    assert partition.log.log_start_offset == 3


async def test_the_cleaner_may_ask_for_one_partition(rig: Rig) -> None:
    one, other = rig.filled("a"), rig.filled("b")
    rig.pass_time(RETENTION_MS + 1)
    assert await rig.retention.apply(one) == 3
    assert (one.log.log_start_offset, other.log.log_start_offset) == (3, 0)


async def test_whoever_waits_at_a_removed_offset_looks_again(rig: Rig) -> None:
    partition = rig.filled()
    waiter = Wakes()
    partition.waiters.add(waiter)
    await rig.retention.run_once()
    assert not waiter.changed
    rig.pass_time(RETENTION_MS + 1)
    await rig.retention.run_once()
    assert waiter.changed == {partition}


async def test_a_disk_that_fails_takes_its_directory_and_the_others_expire(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, kept = rig.filled("a"), rig.filled("b")
    rig.pass_time(RETENTION_MS + 1)
    rename = PosixFileSystem.rename

    def refuse(self: PosixFileSystem, source: str, target: str) -> None:
        if source.startswith(lost.log.path):
            raise OSError(errno.EIO, "I/O error", source)
        rename(self, source, target)

    monkeypatch.setattr(PosixFileSystem, "rename", refuse)
    await rig.retention.run_once()
    assert rig.hosted.lost_dirs == [str(Path(lost.log.path).parent)]
    assert [one.tp for one in rig.hosted.manager] == [kept.tp]
    assert kept.log.log_start_offset == 3


async def test_a_failed_unlink_takes_its_directory(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = rig.filled(file_delete_delay_ms=0)
    rig.pass_time(RETENTION_MS + 1)

    def refuse(self: PosixFileSystem, path: str) -> None:
        raise OSError(errno.EIO, "I/O error", path)

    monkeypatch.setattr(PosixFileSystem, "unlink", refuse)
    await rig.retention.run_once()
    assert rig.hosted.lost_dirs == [str(Path(partition.log.path).parent)]


async def test_the_files_of_an_offline_directory_are_left_alone(rig: Rig) -> None:
    partition = rig.filled()
    rig.pass_time(RETENTION_MS + 1)
    await rig.retention.run_once()
    log_dir = rig.hosted.logs.dir_of(partition.tp)
    assert log_dir is not None
    rig.hosted.logs.fail_dir(log_dir, StorageFailure("I/O error", partition.log.path))
    rig.pass_time(DELAY_MS)
    await rig.checkpoints.purge()
    assert names(partition, ".deleted")


async def test_a_start_below_removed_segments_stays_in_the_checkpoint_until_their_names_are_gone(rig: Rig) -> None:
    partition = rig.filled(retention_ms=-1)
    partition.delete_records(2)
    checkpoint = Path(partition.log.path).parent / "log-start-offset-checkpoint"
    await rig.checkpoints.save_log_starts()
    assert checkpoint.read_text() == "0\n1\nt 0 2\n"
    removal = partition.log.retain(NOW_MS)
    assert removal is not None
    await rig.checkpoints.save_log_starts()
    assert checkpoint.read_text() == "0\n1\nt 0 2\n"
    removal.rename()
    partition.log.removed(removal)
    await rig.checkpoints.save_log_starts()
    assert checkpoint.read_text() == "0\n0\n"


@pytest.mark.parametrize(("interval_ms", "is_written"), [(0, True), (60_000, False)])
async def test_without_an_interval_the_log_starts_are_written_with_each_pass(
    tmp_path: Path, interval_ms: int, is_written: bool
) -> None:
    rig = Rig(tmp_path, config=LogManagerConfig(flush_start_offset_checkpoint_interval_ms=interval_ms))
    partition = rig.filled(segment_bytes=1 << 20)
    partition.delete_records(2)
    await rig.retention.run_once()
    assert (tmp_path / "log-start-offset-checkpoint").exists() is is_written
    rig.pools.close()


async def test_a_log_that_cannot_roll_is_told_and_the_others_expire(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    stuck, other = rig.filled("a"), rig.filled("b")
    rig.hosted.configure("a", LogConfig(retention_ms=RETENTION_MS, segment_bytes=100, segment_index_bytes=4))
    rig.pass_time(RETENTION_MS + 1)
    await rig.retention.run_once()
    assert [record.getMessage().split(" reason")[0] for record in caplog.records if record.levelname == "ERROR"] == [
        "cannot apply retention partition=a-0"
    ]
    assert (stuck.log.log_start_offset, other.log.log_start_offset) == (0, 3)


async def test_pending_segments_stay_and_go_with_the_first_pass_after_they_have_come_due(rig: Rig) -> None:
    partition = rig.filled(count=3, retention_bytes=0, retention_ms=-1, delivery_mode="scheduled")
    now_ms = rig.hosted.clock.wall_ms
    for time_ms in (now_ms + 10_000, now_ms - 10_000, now_ms):
        partition.append(build_batch([(b"k", b"v" * 20)], timestamp=time_ms))
    rig.hosted.timers.pass_ms(9_000)
    await rig.retention.run_once()
    assert partition.log.log_start_offset == 3
    rig.hosted.timers.pass_ms(1_250)
    await rig.retention.run_once()
    assert partition.log.log_start_offset == 6
    await rig.hosted.deliveries.close()
