"""The way of a move between log directories, beside producers and flushes; its turn and its pace."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from broker.background.moves.workers import worker_of
from config.views import LogConfig
from protocol.records.builder import build_batch
from storage.types import TopicPartition
from tests.harness.hosted import NOW_MS
from tests.harness.moving import CONFIG, MoveBed, content, folders, paused


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


async def test_what_a_scheduled_log_has_released_moves_with_it_and_the_rest_comes_due_there(
    bed: MoveBed, paths: list[Path]
) -> None:
    partition = bed.create("t", paths[0], batches=0, config=LogConfig(delivery_mode="scheduled"))
    for due_in_ms in (0, 5000):
        partition.append(build_batch([(b"k", b"v")], timestamp=NOW_MS + due_in_ms))
    bed.hosted.timers.pass_ms(250)
    bed.clock.set_by_ms -= 3_600_000
    await bed.moves.start()
    await bed.moves.alter(partition.tp, str(paths[1]))
    await bed.until(lambda: not bed.moves.running())
    assert bed.dir_of(partition) == "b"
    assert partition.visible(2) == 1
    bed.clock.set_by_ms += 3_600_000
    bed.hosted.timers.pass_ms(5000)
    assert partition.log.released_end_offset == 2


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
