"""A file system without space: appends are refused cleanly, and nothing that was acknowledged suffers."""

from __future__ import annotations

import pytest

from tests.faults.rig import HIGH_WATERMARKS, RECOVERY_POINTS, TOPIC, Rig
from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.mounts import MIB
from tests.harness.raw import eventually

NO_SPACE = "No space left on device"


@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_producers_of_a_full_disk_are_refused_and_lose_nothing(rig: Rig, preallocate: str) -> None:
    lost = rig.start_filled(count=20, preallocate=preallocate, segment_bytes=str(MIB))
    rig.disk.fill(leave_bytes=MIB // 2)
    for writer in rig.on(rig.good):
        writer.send_many(rig.client, 5)
    rig.assert_a_write_takes_the_disk(lost, NO_SPACE)
    rig.come_back(rig.disk.free)


def test_a_roll_that_finds_no_space_loses_nothing(rig: Rig) -> None:
    lost = rig.start_filled(count=10, segment_bytes=str(MIB))
    rig.disk.use_up_names()
    rig.assert_a_write_takes_the_disk(lost, NO_SPACE)
    rig.come_back(rig.disk.free)


def test_a_checkpoint_that_finds_no_space_takes_its_directory_only(rig: Rig) -> None:
    rig.start({"replica.high.watermark.checkpoint.interval.ms": "100"})
    lost = rig.on(rig.bad)
    lost[0].send_many(rig.client, 1, size=10)
    eventually(lambda: f"{TOPIC} {lost[0].partition} 1" in (rig.bad / HIGH_WATERMARKS).read_text())
    rig.disk.fill()
    lost[0].send_many(rig.client, 1, size=10)  # its block is there already, that of the checkpoint is not
    rig.assert_bad_is_offline(lost, NO_SPACE)
    rig.come_back(rig.disk.free)


def test_a_topic_is_created_elsewhere_when_a_directory_takes_no_file(rig: Rig) -> None:
    rig.start()
    lost = rig.on(rig.bad)
    rig.disk.use_up_names()
    rig.client.create_topic("new", 4)
    assert len(list(rig.good.glob("new-?"))) == 4
    rig.assert_bad_is_offline(lost, NO_SPACE)
    for index in range(4):
        assert rig.client.append("new", batches.simple("v"), index) == 0
    rig.come_back(rig.disk.free)
    assert [rig.client.end_offset("new", index) for index in range(4)] == [1] * 4


def test_a_cleaning_without_space_waits_for_it_and_disturbs_nobody(rig: Rig) -> None:
    rig.start(
        {"log.cleaner.backoff.ms": "100"},
        cleanup_policy="compact",
        segment_bytes=str(MIB),
        min_cleanable_dirty_ratio="1",
    )
    compacted = rig.on(rig.bad)[0]
    rig.disk.fill(leave_bytes=3 * MIB)
    compacted.send_many(rig.client, 40)
    # What rolls leave to be done beside the appends would find no space either.
    segments = (rig.bad / f"{TOPIC}-{compacted.partition}").glob("*.log")
    sealed = max(int(path.stem) for path in segments)
    eventually(lambda: f"{TOPIC} {compacted.partition} {sealed}\n" in (rig.bad / RECOVERY_POINTS).read_text())
    rig.disk.fill()
    set_configs(rig.client, TOPIC, min_cleanable_dirty_ratio="0.01")
    eventually(lambda: "cleaning failed" in rig.broker.log_text())
    compacted.send_many(rig.client, 1, size=10)
    compacted.check(rig.client)
    assert rig.metric("kafka_server_replicamanager_offlinereplicacount") == 0
    rig.disk.free()
    eventually(lambda: rig.metric("odradek_log_cleaner_passes_total") > 0)
    compacted.send_many(rig.client, 10)
    compacted.check(rig.client)
    assert (rig.client.close(), rig.broker.stop()) == (None, 0)
