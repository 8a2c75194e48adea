"""Moves between directories, one of which fails: whoever is elsewhere is served, and in the end there is one log."""

from __future__ import annotations

import pytest

from tests.faults.rig import KAFKA_STORAGE_ERROR, TOPIC, Rig, Writer
from tests.harness import log_dirs
from tests.harness.mounts import MIB
from tests.harness.raw import eventually

FLUSHED = {"log.flush.interval.messages": "1"}  # an acknowledgement outlives the disk's end
SLOW = 100_000  # bytes a second, of a million


def begin_move(rig: Rig, writer: Writer, path: object) -> None:
    """Begin a move that takes a while, and wait until something of it was copied."""
    log_dirs.throttle(rig.client, SLOW)
    assert log_dirs.move(rig.client, str(path), TOPIC, writer.partition) == 0
    eventually(lambda: (found := log_dirs.future_in(rig.client, path, TOPIC, writer.partition)) and found.size > 0)


def finish(rig: Rig, writer: Writer, path: object) -> None:
    """Start again with the disk mended: what was acknowledged is there, and the move comes to its end by itself."""
    rig.restart()
    log_dirs.throttle(rig.client, None)
    log_dirs.wait_until_only_in(rig.client, path, TOPIC, writer.partition)
    writer.check_over_repetition(rig.client)
    names = [path.name for place in (rig.good, rig.bad) for path in place.glob(f"{TOPIC}-{writer.partition}*")]
    assert [name for name in names if not name.endswith("-delete")] == [f"{TOPIC}-{writer.partition}"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("fill", "No space left on device"),
        ("break_writes", "Input/output error"),
        ("power_off", "Input/output error"),
    ],
)
def test_a_destination_that_fails_costs_the_move_and_not_the_partition(rig: Rig, fault: str, reason: str) -> None:
    lost = rig.start_filled(FLUSHED, count=20, segment_bytes=str(MIB))
    moving = rig.on(rig.good)[0]
    begin_move(rig, moving, rig.bad)
    getattr(rig.disk, fault)()
    log_dirs.throttle(rig.client, None)
    rig.assert_bad_is_offline(lost, reason)
    eventually(lambda: rig.metric("odradek_log_dir_moves_running") == 0)
    moving.send_many(rig.client, 3)
    assert log_dirs.move(rig.client, str(rig.bad), TOPIC, moving.partition) == KAFKA_STORAGE_ERROR
    rig.stop()
    rig.disk.free() if fault == "fill" else rig.disk.repair()
    finish(rig, moving, rig.bad)


def test_a_source_that_fails_takes_the_partition_until_it_is_back(rig: Rig) -> None:
    lost = rig.start_filled(FLUSHED, count=20, segment_bytes=str(MIB))
    moving = lost[0]
    begin_move(rig, moving, rig.good)
    rig.disk.power_off()
    rig.assert_a_write_takes_the_disk(lost, "Input/output error")
    rig.stop()
    rig.disk.repair()
    finish(rig, moving, rig.good)


def test_a_move_off_a_disk_that_is_nearly_full_frees_it(rig: Rig) -> None:
    """What moves are for: the disk fills up, and its partitions go elsewhere before it is too late."""
    leaving = rig.start_filled({"log.segment.delete.delay.ms": "100"}, count=20, segment_bytes=str(MIB))
    rig.disk.fill(leave_bytes=MIB // 2)
    for writer in leaving:
        assert log_dirs.move(rig.client, str(rig.good), TOPIC, writer.partition) == 0
        log_dirs.wait_until_only_in(rig.client, rig.good, TOPIC, writer.partition)
        writer.send_many(rig.client, 20)
        writer.check(rig.client)
    eventually(lambda: rig.disk.free_bytes() > 2 * MIB)
    assert (rig.client.close(), rig.broker.stop()) == (None, 0)
    assert rig.on(rig.bad) == []
