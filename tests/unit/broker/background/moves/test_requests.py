"""What is asked of moves: repeated, cancelled, redirected, refused."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

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
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.moving import CONFIG, MoveBed, folders, paused


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
