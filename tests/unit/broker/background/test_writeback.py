"""Write-back windows: two on their way to the disk, appends wait for room before a third, and go on in their order."""

from __future__ import annotations

import asyncio

import pytest

from broker.partition.internal_log import InternalLog
from config.views import LogConfig
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.log.writeback import WritebackPlan
from tests.harness.gate import Gated, settled
from tests.harness.hosted import NOW_MS

SIZE = len(build_batch([(b"k", b"v" * 20)], timestamp=NOW_MS))
WINDOW = LogConfig(writeback_window_bytes=2 * SIZE)


async def fill(gated: Gated, windows: int) -> None:
    for _ in range(2 * windows):
        ((code, _),) = await gated.send("t")
        assert code == 0
    await settled()


async def test_the_third_full_window_makes_appends_wait_until_a_sync_ends(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=WINDOW)
    await fill(gated, 3)
    assert len(gated.pools.waiting) == 2
    waiting = [gated.send("t") for _ in range(2)]
    await settled()
    assert not any(one.done() for one in waiting)
    assert (partition.log.log_end_offset, gated.disk.writeback.waits) == (6, 1)
    gated.pools.let_through()
    assert [await one for one in waiting] == [[(0, 6)], [(0, 7)]]
    assert partition.log.recovery_point == 0


async def test_at_most_two_windows_are_on_their_way_and_appends_keep_their_order(gated: Gated) -> None:
    gated.hosted.create("t", config=WINDOW)
    sent = [gated.send("t") for _ in range(40)]
    while not all(one.done() for one in sent):
        await settled()
        assert gated.disk.writeback.running_count <= 2
        if gated.pools.waiting:
            gated.pools.let_through()
    assert [await one for one in sent] == [[(0, offset)] for offset in range(40)]


async def test_what_waits_is_admitted_one_at_a_time_so_that_the_bound_holds(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=LogConfig(writeback_window_bytes=SIZE))
    await fill(gated, 1)
    assert partition.log.log_end_offset == 2
    assert await gated.send("t") == [(0, 2)]
    crowd = [gated.send("t") for _ in range(10)]
    await settled()
    assert partition.log.log_end_offset == 3
    gated.pools.let_through()
    await settled()
    assert partition.log.log_end_offset == 4
    gated.pools.open()
    assert [await one for one in crowd] == [[(0, offset)] for offset in range(3, 13)]


async def test_other_partitions_do_not_wait(gated: Gated) -> None:
    gated.hosted.create("t", config=WINDOW)
    gated.hosted.create("u", config=WINDOW)
    await fill(gated, 3)
    assert await gated.send("u") == [(0, 0)]


async def test_a_coordinators_append_does_not_wait(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=WINDOW)
    await fill(gated, 3)
    log = InternalLog("t", gated.hosted.manager, gated.pools.io)
    assert await log.append(0, build_batch([(b"k", b"v")], timestamp=NOW_MS)) == 7
    assert partition.log.high_watermark == 7


async def test_a_request_that_waits_for_room_is_carried_through(gated: Gated) -> None:
    gated.hosted.create("t", config=WINDOW)
    gated.hosted.create("u", config=WINDOW)
    await fill(gated, 3)
    both = gated.send("u", "t", acks=1)
    await settled()
    assert not both.done()
    gated.pools.let_through()
    assert await both == [(0, 0), (0, 6)]


async def test_a_failed_write_back_takes_the_directory(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = gated.hosted.create("t", config=WINDOW)

    def fail(plan: WritebackPlan) -> None:
        raise StorageFailure("I/O error", partition.log.path)

    monkeypatch.setattr(WritebackPlan, "run", fail)
    await fill(gated, 3)
    waiting = gated.send("t")
    await settled()
    gated.pools.open()
    assert await waiting == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert len(gated.hosted.lost_dirs) == 1
    assert gated.disk.writeback.running_count == 0


async def test_a_topic_deleted_while_appends_wait_answers_them(gated: Gated) -> None:
    gated.hosted.create("t", config=WINDOW)
    await fill(gated, 3)
    waiting = gated.send("t")
    await settled()
    gated.hosted.delete("t")
    assert await waiting == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    gated.pools.open()
    await gated.disk.close()
    assert gated.hosted.lost_dirs == []


async def test_a_wait_that_is_given_up_takes_nobodys_turn(gated: Gated) -> None:
    gated.hosted.create("t", config=WINDOW)
    await fill(gated, 3)
    gone, stays = gated.send("t"), gated.send("t")
    await settled()
    gone.cancel()
    gated.pools.let_through()
    assert await asyncio.wait_for(stays, 5) == [(0, 6)]


async def test_synced_pages_beyond_the_budget_are_dropped_on_another_thread(gated: Gated) -> None:
    gated.hosted.create("t", config=LogConfig(writeback_window_bytes=8192))
    await gated.send("t", size=10_000)
    await settled()
    gated.pools.open()
    await gated.disk.close()
    ((path, position, size),) = gated.hosted.dropped
    assert (path[-4:], position, size) == (".log", 0, 8192)
    assert gated.hosted.page_cache.dropped_bytes == 8192
    assert gated.pools.passed[-1] == "page cache"


async def test_without_a_window_nothing_is_written_back(gated: Gated) -> None:
    gated.hosted.create("t", config=LogConfig(writeback_window_bytes=0))
    for _ in range(20):
        await gated.send("t")
    await settled()
    assert (gated.pools.waiting, gated.disk.writeback.running_count) == ([], 0)
