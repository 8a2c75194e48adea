"""Moves between log directories: requests, copying beside producers, the swap, stops, failures, a restart."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.background.moves.workers import worker_of
from broker.metadata.image import Delta
from broker.partition.errors import (
    FutureNameTooLong,
    LogDirCordoned,
    LogDirNotFound,
    LogDirOffline,
    NoReplicaHere,
    PartitionOffline,
    UnknownPartition,
)
from config.views import LogConfig
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.moving import CONFIG, MoveBed, content


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b", tmp_path / "c"]


@pytest.fixture
async def bed(paths: list[Path]) -> AsyncIterator[MoveBed]:
    bed = MoveBed(*paths)
    yield bed
    await bed.close()


def folders(path: Path) -> list[str]:
    """Name the folders of partitions, without what makes them unique."""
    names = [name for name in os.listdir(path) if os.path.isdir(path / name)]
    return sorted(name.split(".")[0] + name[name.rindex("-") :] * ("." in name) for name in names)


def paused(bed: MoveBed, topic: str) -> int:
    return bed.cleaner._paused[TopicPartition(topic, 0)]


# --- the way of one move ---


async def test_a_partition_moves_with_all_it_has_and_goes_on_there(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    before, ends = content(partition), (partition.log.high_watermark, partition.log.log_end_offset)
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"
    assert content(partition) == before
    assert (partition.log.high_watermark, partition.log.log_end_offset) == ends
    assert bed.append(partition) == 10
    assert folders(paths[0]) == ["t-0-delete"]
    assert folders(paths[1]) == ["t-0"]
    assert bed.assigned == [(partition.tp, bed.logs.dirs[1].directory_id)]
    assert (bed.moves.completed_count, bed.moves.copied_bytes) == (1, len(before))
    assert partition.has_room
    assert paused(bed, "t") == 0


async def test_checkpoints_of_both_directories_follow(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=20, config=LogConfig(cleanup_policy=frozenset({"delete"})))
    partition.log.increment_log_start_offset(5)
    await bed.checkpoints.rewrite()
    bed.logs.set_cleaner_checkpoint(partition.tp, 3)
    await bed.cleaner.write_checkpoints()
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: not bed.moves.running())
    await bed.checkpoints.catch_up()
    for name in ("recovery-point-offset", "replication-offset", "log-start-offset", "cleaner-offset"):
        assert "t 0" not in (paths[0] / f"{name}-checkpoint").read_text(), name
    expected = {"recovery-point-offset": 20, "replication-offset": 20, "cleaner-offset": 3}
    for name, offset in expected.items():
        assert f"t 0 {offset}\n" in (paths[1] / f"{name}-checkpoint").read_text()
    assert partition.log.log_start_offset == 5


async def test_appends_go_on_while_it_copies_and_wait_only_for_the_swap(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=50)
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=1000))
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    appended = 50
    while bed.moves.running():
        await bed.turns(5)
        if partition.has_room:
            assert bed.append(partition) == appended
            appended += 1
            assert partition.log is bed.logs.logs[partition.tp]
        if bed.pools.waiting:
            bed.pools.let_through()
        if appended > 70:
            bed.pools.held = lambda pool: False
    assert partition.log.log_end_offset == appended > 55
    assert len(content(partition)) == partition.log.size_bytes


async def test_an_append_that_waits_for_the_swap_goes_to_the_new_directory(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    order = []

    def during() -> None:
        assert not partition.has_room and not partition.is_immediate and partition.is_on_hold
        order.append("swap")

    bed.before_assigned = during
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: partition.is_on_hold)
    await partition.room()
    order.append("append")
    assert bed.append(partition) == 10
    assert (order, bed.dir_of(partition)) == (["swap", "append"], "b")
    await bed.until(lambda: not bed.moves.running())


async def test_what_waits_for_a_flush_is_answered_before_the_swap(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], config=LogConfig(flush_messages=1))
    await bed.turns()
    bed.pools.held = lambda pool: pool == str(paths[0])
    bed.append(partition)
    answered = asyncio.ensure_future(partition.durable(11))
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.turns(500)
    assert bed.assigned == [] and not answered.done()
    bed.pools.held = lambda pool: False
    bed.pools.let_through(len(bed.pools.waiting))
    await bed.until(lambda: not bed.moves.running())
    assert answered.done() and partition.log.high_watermark == 11
    bed.append(partition)
    await partition.durable(12)
    assert partition.log.recovery_point == 12


async def test_a_flush_that_runs_holds_the_renames_up(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    bed.pools.held = lambda pool: pool == str(paths[0])
    flush = asyncio.ensure_future(bed.disk.flushes.flush(partition))
    await bed.turns()
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.turns(500)
    assert bed.assigned and folders(paths[0]) == ["t-0"]
    bed.pools.held = lambda pool: False
    bed.pools.let_through(len(bed.pools.waiting))
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b" and flush.done()
    assert bed.hosted.lost_dirs == []


async def test_log_start_retention_and_settings_are_followed(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=40, config=LogConfig(segment_bytes=1000))
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=1000))
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    for _ in range(4):
        await bed.until(lambda: bed.pools.waiting)
        bed.pools.let_through()
    partition.delete_records(25)
    bed.hosted.configure("t", replace(partition.log.config, segment_bytes=5000, retention_ms=1))
    bed.pools.held = lambda pool: False
    bed.pools.let_through(len(bed.pools.waiting))
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"
    assert (partition.log.log_start_offset, partition.log.config.segment_bytes) == (25, 5000)
    assert partition.log.first_segment_base_offset > 15
    assert not any(name.endswith(".deleted") for name in os.listdir(partition.log.path))


async def test_a_log_that_is_cut_is_cut_in_the_copy(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=20)
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=500))
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    for _ in range(3):
        await bed.until(lambda: bed.pools.waiting)
        bed.pools.let_through()
    partition.log.truncate_to(5)
    bed.hosted.lead("t", 1, 4)
    bed.append(partition, b"another")
    bed.pools.held = lambda pool: False
    bed.pools.let_through(len(bed.pools.waiting))
    before = content(partition)
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"
    assert content(partition) == before
    assert partition.log.log_end_offset == 6


# --- requests ---


async def test_a_request_that_is_repeated_changes_nothing(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    await bed.moves.alter(partition.tp, str(paths[1]))
    move = bed.move_of(partition)
    await bed.moves.alter(partition.tp, str(paths[1]))
    assert bed.move_of(partition) is move
    await bed.moves.alter(TopicPartition("t", 0), str(paths[1]))
    assert paused(bed, "t") == 1


async def test_a_move_back_cancels(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.moves.alter(partition.tp, str(paths[0]))
    assert not bed.moves.running() and not bed.logs.futures
    assert (bed.dir_of(partition), folders(paths[1])) == ("a", ["t-0-delete"])
    assert paused(bed, "t") == 0
    await bed.moves.alter(partition.tp, str(paths[0]))
    assert not bed.moves.running()


async def test_nothing_that_was_written_of_a_copy_vouches_for_the_next_one(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=50)
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=1000))
    bed.pools.held = lambda pool: pool == f"{paths[1]} moves"
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: bed.pools.waiting)
    bed.logs.futures[partition.tp].log.flush()
    bed.pools.let_through()
    await bed.until(lambda: bed.pools.waiting)
    bed.logs.futures[partition.tp].log.flush()
    await bed.checkpoints.rewrite()
    recovery_points = paths[1] / "recovery-point-offset-checkpoint"
    assert "t 0 0\n" not in recovery_points.read_text() and "t 0 " in recovery_points.read_text()
    redirected = asyncio.ensure_future(bed.moves.alter(partition.tp, str(paths[0])))
    bed.pools.let_through()
    await redirected
    await bed.moves.alter(partition.tp, str(paths[1]))
    assert "t 0 " not in recovery_points.read_text()


async def test_how_far_a_copy_is_durable_is_noted_soon(
    bed: MoveBed, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.log.copying.FLUSH_EVERY_BYTES", 1)
    partition = bed.create("t", paths[0], batches=50)
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=1000))
    bed.pools.held = lambda pool: pool == f"{paths[1]} moves"
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    for _ in range(3):
        await bed.until(lambda: bed.pools.waiting)
        bed.pools.let_through()
        await bed.turns()
    await bed.checkpoints.catch_up()
    durable = bed.logs.futures[partition.tp].log.recovery_point
    assert durable > 0
    assert f"t 0 {durable}\n" in (paths[1] / "recovery-point-offset-checkpoint").read_text()


async def test_a_move_is_redirected_while_a_step_runs(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    bed.pools.held = lambda pool: pool == f"{paths[1]} moves"
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: bed.pools.waiting)
    redirected = asyncio.ensure_future(bed.moves.alter(partition.tp, str(paths[2])))
    await bed.turns()
    assert not redirected.done(), "the copy belongs to the step"
    bed.pools.let_through()
    await redirected
    assert folders(paths[1]) == ["t-0-delete"]
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "c"


async def test_a_cancellation_comes_too_late_once_the_metadata_are_told(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    requests = []
    bed.before_assigned = lambda: (
        requests or requests.append(asyncio.ensure_future(bed.moves.alter(partition.tp, str(paths[0]))))
    )
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: requests and requests[0].done())
    await requests[0]
    await bed.until(lambda: not bed.moves.running())
    assert bed.moves.completed_count == 2
    assert bed.dir_of(partition) == "a"
    assert [directory for _, directory in bed.assigned] == [
        bed.logs.dirs[1].directory_id,
        bed.logs.dirs[0].directory_id,
    ]


async def test_a_move_back_while_the_end_of_the_last_one_is_written_waits_for_it(
    bed: MoveBed, paths: list[Path]
) -> None:
    partition = bed.create("t", paths[0])
    bed.logs.set_cleaner_checkpoint(partition.tp, 1)
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: bed.logs.dir_of(partition.tp) is bed.logs.dirs[1])
    assert bed.moves.running(), "how far it is clean is still to be written"
    await bed.moves.alter(partition.tp, str(paths[0]))
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "a"
    assert paused(bed, "t") == 0, "it may be cleaned again"


async def test_a_cancellation_before_that_leaves_everything_as_it_was(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    while not partition.is_on_hold:
        await bed.until(lambda: bed.pools.waiting or partition.is_on_hold)
        if not partition.is_on_hold:
            bed.append(partition)  # so that there is something left to be copied
            bed.pools.let_through()
    end = partition.log.log_end_offset
    request = asyncio.ensure_future(bed.moves.alter(partition.tp, str(paths[0])))
    await bed.turns()
    bed.pools.held = lambda pool: False
    bed.pools.let_through(len(bed.pools.waiting))
    await request
    assert bed.assigned == [] and partition.has_room and not bed.logs.futures
    assert bed.append(partition) == end


async def test_a_copy_whose_name_cannot_be_made_durable_is_refused(
    bed: MoveBed, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = bed.create("t", paths[0])
    await bed.checkpoints.rewrite()

    def sync_dir(path: str) -> None:
        if path == str(paths[1]):
            raise OSError(errno.EIO, "as if the disk were broken", path)

    monkeypatch.setattr(PosixFileSystem, "sync_dir", staticmethod(sync_dir))
    with pytest.raises(StorageFailure):
        await bed.moves.alter(partition.tp, str(paths[1]))
    assert (bed.logs.futures, bed.hosted.lost_dirs) == ({}, [str(paths[1])])
    assert not bed.moves.running() and paused(bed, "t") == 0


async def test_each_refusal_has_its_reason_and_keeps_an_earlier_preference(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    unknown = TopicPartition("u", 0)
    with pytest.raises(UnknownPartition):
        await bed.moves.alter(unknown, str(paths[2]))
    bed.hosted.create("elsewhere", replicas=(2,), leader=2)
    bed.moves.publish(Delta(), bed.hosted.image())
    with pytest.raises(NoReplicaHere):
        await bed.moves.alter(TopicPartition("elsewhere", 0), str(paths[2]))
    with pytest.raises(FutureNameTooLong):
        await bed.moves.alter(TopicPartition("n" * 249, 0), str(paths[1]))
    for path in (f"{paths[1]}/", "b", str(paths[1].parent)):
        with pytest.raises(LogDirNotFound):
            await bed.moves.alter(unknown, path)
    bed.logs.cordoned = frozenset({str(paths[0])})
    for tp in (unknown, partition.tp):
        with pytest.raises(LogDirCordoned):
            await bed.moves.alter(tp, str(paths[0]))
    bed.fail(paths[1])
    with pytest.raises(LogDirOffline):
        await bed.moves.alter(unknown, str(paths[1]))
    with pytest.raises(LogDirOffline):
        await bed.moves.alter(partition.tp, str(paths[2]))  # the offline one may have a copy
    assert bed.logs.preferred[unknown] == str(paths[2])
    assert bed.dir_of(bed.hosted.create("u")) == "c"
    bed.logs.cordoned = frozenset()
    bed.fail(paths[0])
    with pytest.raises(PartitionOffline):
        await bed.moves.alter(partition.tp, str(paths[2]))


async def test_the_longest_name_that_fits_is_moved(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("n" * (255 - len("-0.-future") - 32), paths[0])
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"
    with pytest.raises(FutureNameTooLong):
        await bed.moves.alter(TopicPartition(partition.tp.topic + "n", 0), str(paths[1]))


async def test_a_copy_satisfies_the_preference(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    await bed.moves.alter(partition.tp, str(paths[1]))
    assert not bed.logs.preferred


# --- workers and the limit ---


async def test_one_move_after_the_other_in_the_order_of_names(bed: MoveBed, paths: list[Path]) -> None:
    partitions = [bed.create(name, paths[0], batches=30) for name in ("z", "a", "m")]
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=700))
    for partition in partitions:
        await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.moves.start()
    await bed.until(lambda: not bed.moves.running(), turns=20_000)
    assert [tp.topic for tp, _ in bed.assigned] == ["a", "m", "z"]


def test_the_partitions_of_a_topic_are_spread_over_the_workers() -> None:
    assert {worker_of(TopicPartition("t", number), 4) for number in range(4)} == {0, 1, 2, 3}


async def test_a_limit_of_nothing_stops_after_a_chunk_and_another_one_goes_on(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=50)
    bed.moves.reconfigure(CONFIG._replace(max_bytes_per_second=0, chunk_bytes=1000))
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.turns(300)
    move = bed.move_of(partition)
    assert 0 < move.copy.copied_bytes <= 1000
    bed.clock.wall_ms += 3_600_000
    await bed.turns(300)
    assert move.copy.copied_bytes <= 1000
    bed.moves.reconfigure(CONFIG)
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"


async def test_a_limit_paces_the_pieces(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0], batches=400)
    bed.moves.reconfigure(CONFIG._replace(max_bytes_per_second=20_000, chunk_bytes=1000))
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    move = bed.move_of(partition)
    start_ms = bed.clock.wall_ms
    for _ in range(100):
        await bed.turns(30)
        bed.clock.wall_ms += 10
        bed.moves.reconfigure(CONFIG._replace(max_bytes_per_second=20_000, chunk_bytes=1000))  # the timer is a real one
    seconds = (bed.clock.wall_ms - start_ms) / 1000
    assert move.copy.copied_bytes == pytest.approx(20_000 * seconds, rel=0.15)
    assert move.rate(bed.clock.monotonic_ns()) == pytest.approx(20_000, rel=0.15)


# --- what goes wrong ---


async def test_a_topic_that_is_deleted_takes_the_move_along(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    await bed.moves.alter(partition.tp, str(paths[1]))
    bed.hosted.delete("t")
    bed.moves.look()
    assert not bed.moves.running() and not bed.logs.futures
    assert folders(paths[0]) == folders(paths[1]) == ["t-0-delete"]
    assert paused(bed, "t") == 0


async def test_a_topic_that_is_deleted_under_a_step_waits_for_its_end(bed: MoveBed, paths: list[Path]) -> None:
    partition = bed.create("t", paths[0])
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: bed.pools.waiting)
    bed.hosted.delete("t")
    bed.moves.look()
    assert folders(paths[1]) == ["t-0-future"]
    bed.pools.let_through()
    await bed.until(lambda: not bed.moves.running())
    assert folders(paths[1]) == ["t-0-delete"]
    assert bed.hosted.lost_dirs == []


@pytest.mark.parametrize("anew_in", [None, 0, 1], ids=["", "and created anew", "and created anew in the destination"])
async def test_a_topic_that_is_deleted_before_its_copy_is_begun(
    bed: MoveBed, paths: list[Path], anew_in: int | None
) -> None:
    partition = bed.create("t", paths[0])
    bed.pools.held = lambda pool: pool == str(paths[1])
    await bed.moves.start()
    request = asyncio.ensure_future(bed.moves.alter(partition.tp, str(paths[1])))
    await bed.until(lambda: bed.pools.waiting)
    bed.hosted.delete("t")
    if anew_in is not None:
        bed.create("t", paths[anew_in])
    bed.pools.held = lambda pool: False
    bed.pools.let_through()
    with pytest.raises(UnknownPartition):
        await request
    assert not bed.logs.futures and not bed.moves.running()
    assert paused(bed, "t") == 0
    if anew_in is not None:
        await bed.moves.alter(partition.tp, str(paths[2]))
        await bed.until(lambda: not bed.moves.running())
        assert bed.logs.dir_of(partition.tp) is bed.logs.dirs[2]


async def test_a_topic_that_is_created_anew_under_a_step_of_the_old_one_moves(bed: MoveBed, paths: list[Path]) -> None:
    old = bed.create("t", paths[0])
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(old.tp, str(paths[1]))
    await bed.until(lambda: bed.pools.waiting)
    bed.hosted.delete("t")
    new = bed.create("t", paths[0])
    before = content(new)
    request = asyncio.ensure_future(bed.moves.alter(new.tp, str(paths[1])))
    await bed.turns()
    bed.pools.held = lambda pool: False
    bed.pools.let_through(len(bed.pools.waiting))
    await request
    await bed.until(lambda: not bed.moves.running())
    assert (bed.dir_of(new), content(new)) == ("b", before)
    assert paused(bed, "t") == 0


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_topic_that_is_deleted_at_any_moment_leaves_nothing(
    bed: MoveBed, paths: list[Path], turns: int
) -> None:
    partition = bed.create("t", paths[0])
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.turns(turns)
    bed.hosted.delete("t")
    bed.moves.look()
    await bed.until(lambda: not bed.moves.running())
    await bed.turns()
    assert bed.hosted.lost_dirs == [] and not bed.logs.logs and not bed.logs.futures
    assert {*folders(paths[0]), *folders(paths[1])} == {"t-0-delete"}
    assert paused(bed, "t") == 0


@pytest.mark.parametrize("turns", range(0, 60, 3))
@pytest.mark.parametrize("failing", [0, 1])
async def test_a_directory_that_fails_at_any_moment_leaves_one_log_or_none_served(
    bed: MoveBed, paths: list[Path], turns: int, failing: int
) -> None:
    partition = bed.create("t", paths[0])
    before = content(partition)
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.turns(turns)
    was_there = bed.logs.dir_of(partition.tp) is bed.logs.dirs[failing]
    bed.fail(paths[failing])
    await bed.until(lambda: not bed.moves.running())
    await bed.turns()
    served = bed.hosted.manager.find(partition.tp)
    assert (served is None) == was_there
    if served is not None:
        assert content(served) == before
        assert bed.dir_of(served) == "ab"[1 - failing]
        assert bed.append(served) == 10
        if bed.assigned:
            assert bed.assigned[-1][1] == bed.logs.dirs[1 - failing].directory_id
    assert paused(bed, "t") == 0


async def test_a_damaged_log_is_tried_again_and_told_of_once(
    bed: MoveBed, paths: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    partition = bed.create("t", paths[0])
    damaged = Path(partition.log.path) / f"{0:020}.log"
    sound = damaged.read_bytes()
    with damaged.open("r+b") as file:
        file.seek(100)
        file.write(b"?")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    move = bed.move_of(partition)
    for _ in range(3):
        await bed.until(lambda: move.failure)
        bed.clock.wall_ms += 1_001
        bed.moves.reconfigure(CONFIG)
        await bed.turns()
    assert "cannot copy" in move.failure and bed.moves.failing_count == 1
    assert caplog.text.count("a move is held up") == 1
    assert bed.hosted.lost_dirs == []
    with damaged.open("r+b") as file:
        file.write(sound)
    bed.clock.wall_ms += 1_001
    bed.moves.reconfigure(CONFIG)
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"


async def test_an_error_delays_only_the_move_that_has_it(bed: MoveBed, paths: list[Path]) -> None:
    first, second = bed.create("a", paths[0]), bed.create("b", paths[0])
    with (Path(first.log.path) / f"{0:020}.log").open("r+b") as file:
        file.seek(100)
        file.write(b"?")
    for partition in (first, second):
        await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.moves.start()
    await bed.until(lambda: bed.moves.completed_count)
    assert bed.dir_of(second) == "b"
    assert [move.tp for move in bed.moves.running()] == [first.tp]


# --- stop and start ---


async def test_a_stop_leaves_a_copy_that_the_next_start_goes_on_with(paths: list[Path]) -> None:
    bed = MoveBed(*paths)
    partition = bed.create("t", paths[0], batches=60)
    before = content(partition)
    bed.moves.reconfigure(CONFIG._replace(chunk_bytes=1000))
    bed.pools.held = lambda pool: pool.endswith(" moves")
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    for _ in range(5):
        await bed.until(lambda: bed.pools.waiting)
        bed.pools.let_through()
    await bed.until(lambda: bed.pools.waiting)
    stopping = asyncio.ensure_future(bed.moves.close())
    await bed.turns()
    assert not stopping.done()
    bed.pools.let_through()
    await stopping
    await bed.disk.close()
    bed.logs.close()

    again = MoveBed(*paths)
    again.hosted.start_with({"t": 1}, directory_id=again.logs.dirs[0].directory_id)
    partition = again.hosted.manager.get("t", 0)
    copied = again.logs.futures[partition.tp].log.size_bytes
    assert 0 < copied < len(before)
    await again.moves.start()
    assert paused(again, "t") == 1
    await again.until(lambda: not again.moves.running())
    assert again.dir_of(partition) == "b"
    assert content(partition) == before
    assert again.moves.copied_bytes == len(before) - copied
    await again.close()


@pytest.mark.parametrize("is_begun", [False, True])
async def test_of_a_copy_from_an_earlier_run_nothing_passes_for_clean(paths: list[Path], is_begun: bool) -> None:
    bed = MoveBed(*paths)
    partition = bed.create("t", paths[0], config=LogConfig(cleanup_policy=frozenset({"compact"})))
    bed.logs.set_cleaner_checkpoint(partition.tp, 8)
    await bed.moves.alter(partition.tp, str(paths[1]))
    if is_begun:
        await bed.moves._steps.run(bed.move_of(partition), 500)
        bed.moves._end(bed.move_of(partition), "as at a stop")
        await bed.moves._begin(partition, bed.logs.futures[partition.tp])
    await bed.moves.start()
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"
    assert bed.logs.cleaner_checkpoint(partition.tp) == (0 if is_begun else 8)
    await bed.close()


async def test_a_copy_without_a_log_waits(paths: list[Path]) -> None:
    bed = MoveBed(*paths)
    partition = bed.create("t", paths[0])
    await bed.moves.alter(partition.tp, str(paths[1]))
    bed.fail(paths[0])
    assert not bed.moves.running() and bed.logs.futures
    await bed.moves.start()
    assert not bed.moves.running()
    await bed.close()
