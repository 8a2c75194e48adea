"""File systems that have become read-only, whose blocks cannot be written or read, or that have been taken away."""

from __future__ import annotations

import shutil

import pytest

from tests.faults.rig import NOT_LEADER_OR_FOLLOWER, Rig
from tests.harness.disk import newest
from tests.harness.mounts import MIB
from tests.harness.raw import ConnectionClosed

READ_ONLY = "Read-only file system"
IO_ERROR = "Input/output error"
FLUSHED = {"log.flush.interval.messages": "1"}  # an acknowledgement outlives the machine


def test_a_file_system_that_becomes_read_only_under_load(rig: Rig) -> None:
    lost = rig.start_filled(count=10)
    rig.disk.make_read_only()
    rig.assert_a_write_takes_the_disk(lost, READ_ONLY)
    rig.stop()


def test_a_file_system_that_becomes_read_only_while_idle_is_read_until_it_is_written(rig: Rig) -> None:
    lost = rig.start_filled(count=2)
    rig.disk.make_read_only()
    for writer in lost:
        writer.check(rig.client)
    rig.stop()


@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_a_failed_sync_is_told_to_the_producer_and_never_repeated(rig: Rig, preallocate: str) -> None:
    lost = rig.start_filled(FLUSHED, preallocate=preallocate)
    rig.disk.break_writes()
    rig.assert_a_write_takes_the_disk(lost, IO_ERROR)
    rig.come_back(rig.disk.repair)


@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_what_was_flushed_outlives_the_machine(rig: Rig, preallocate: str) -> None:
    lost = rig.start_filled(FLUSHED, count=30, preallocate=preallocate, segment_bytes=str(MIB))
    rig.disk.power_off()
    rig.assert_a_write_takes_the_disk(lost, IO_ERROR)
    rig.come_back(rig.disk.repair)


def test_a_cold_read_that_fails_takes_the_directory(rig: Rig) -> None:
    lost = rig.start_filled(FLUSHED)
    cold = lost[0]
    rig.disk.drop_cached(newest(rig.bad / f"t-{cold.partition}", ".log"))
    rig.disk.die()
    with pytest.raises(ConnectionClosed):  # the answer had begun
        rig.client.fetch("t", 0, cold.partition)
    rig.connect()
    rig.assert_bad_is_offline(lost, IO_ERROR)
    rig.come_back(rig.disk.repair)


def test_recovery_that_cannot_read_leaves_its_directory_offline(rig: Rig) -> None:
    lost = rig.start_filled(FLUSHED)
    rig.broker.kill()
    rig.disk.drop_cached(newest(rig.bad / f"t-{lost[1].partition}", ".log"))
    rig.disk.die()
    rig.broker.start()
    rig.connect()
    rig.assert_bad_is_offline(lost, IO_ERROR, NOT_LEADER_OR_FOLLOWER)
    rig.come_back(rig.disk.repair)


def test_a_directory_that_can_only_be_read_at_the_start_is_offline(rig: Rig) -> None:
    lost = rig.start_filled()
    assert (rig.client.close(), rig.broker.stop()) == (None, 0)
    rig.disk.make_read_only()
    rig.broker.start()
    rig.connect()
    rig.assert_bad_is_offline(lost, READ_ONLY, NOT_LEADER_OR_FOLLOWER)
    rig.client.close()
    assert rig.broker.stop() == 0
    rig.disk.repair()
    rig.restart()


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_file_system_that_is_taken_away_while_the_broker_runs(rig: Rig, is_idle: bool) -> None:
    """Its path leads to an empty directory then, on another disk, in which nothing may be begun."""
    rig.use_mount_point()
    lost = rig.start_filled()
    rig.disk.detach()
    if not is_idle:
        rig.client.create_topic("new", 8)
        assert len(list(rig.good.glob("new-?"))) == 8
    rig.assert_bad_is_offline(lost, "was removed or replaced")
    rig.stop()
    assert list(rig.disk.path.iterdir()) == []
    rig.disk.repair()
    rig.restart()


def test_a_directory_that_is_removed_while_the_broker_runs(rig: Rig) -> None:
    lost = rig.start_filled({"log.segment.bytes": str(MIB)})
    shutil.rmtree(rig.bad)
    rig.assert_a_write_takes_the_disk(lost, "")
    rig.stop()
    assert not rig.bad.exists()
