"""A stop and a start in the middle of a move."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from config.views import LogConfig
from tests.harness.moving import CONFIG, MoveBed, content, paused


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
