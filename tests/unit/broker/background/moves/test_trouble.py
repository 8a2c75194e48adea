"""What goes wrong while a partition moves: its topic goes, a directory fails, a log is damaged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.partition.errors import (
    UnknownPartition,
)
from tests.harness.moving import CONFIG, MoveBed, content, folders, paused


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
