"""Flushes that settings ask for: who waits for them, what they hold back, and how failures and deletions end a wait."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from broker.partition.internal_log import InternalLog
from broker.partition.partition import READ_UNCOMMITTED
from config.views import LogConfig
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.log.flush import FlushPlan
from tests.harness.gate import Gated, settled
from tests.harness.hosted import NOW_MS
from tests.harness.wakes import Wakes

ON_APPEND = LogConfig(flush_on_append=True)


def by_count(count: int, **options: int) -> LogConfig:
    return LogConfig(flush_messages=count, **options)


async def test_an_append_that_makes_a_flush_due_is_answered_and_visible_after_it(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=ON_APPEND)
    waiter = Wakes()
    partition.waiters.add(waiter)
    sent = gated.send("t")
    await settled()
    assert not sent.done()
    assert (partition.log.log_end_offset, partition.bound(READ_UNCOMMITTED), waiter.changed) == (1, 0, set())
    gated.pools.let_through()
    assert await sent == [(0, 0)]
    assert (partition.log.recovery_point, partition.bound(READ_UNCOMMITTED)) == (1, 1)
    assert waiter.changed == {partition}


async def test_appends_one_after_the_other_take_a_sync_each(gated: Gated) -> None:
    gated.hosted.create("t", config=ON_APPEND)
    gated.pools.open()
    for offset in range(5):
        assert await gated.send("t") == [(0, offset)]
    assert len(gated.pools.passed) == 5


async def test_appends_that_come_while_a_flush_runs_share_the_next_one(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=ON_APPEND)
    first = gated.send("t")
    await settled()
    others = [gated.send("t") for _ in range(4)]
    await settled()
    gated.pools.let_through()
    await settled()
    assert first.done() and not any(one.done() for one in others)
    assert partition.log.high_watermark == 1
    gated.pools.let_through()
    assert [await one for one in others] == [[(0, 1)], [(0, 2)], [(0, 3)], [(0, 4)]]
    assert (len(gated.pools.passed), partition.log.recovery_point) == (2, 5)


async def test_flush_messages_lets_appends_pass_until_so_many_are_unflushed(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=by_count(3))
    assert [await gated.send("t"), await gated.send("t")] == [[(0, 0)], [(0, 1)]]
    assert (partition.log.high_watermark, gated.pools.waiting) == (2, [])
    third = gated.send("t")
    await settled()
    fourth = gated.send("t")  # would not make a flush due by itself, but must not overtake the third
    await settled()
    assert (third.done(), fourth.done(), partition.log.high_watermark) == (False, False, 2)
    gated.pools.let_through()
    assert [await third, await fourth] == [[(0, 2)], [(0, 3)]]
    assert (partition.log.recovery_point, partition.log.high_watermark) == (3, 4)
    assert len(gated.pools.passed) == 1


async def test_one_append_of_many_records_is_one_flush(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=by_count(3))
    partition.append(build_batch([(b"k", b"v")] * 10, timestamp=NOW_MS))
    gated.pools.open()
    await partition.durable(10)
    assert (partition.log.recovery_point, len(gated.pools.passed)) == (10, 1)


async def test_acks_0_waits_for_nothing_but_is_held_back_from_readers(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=ON_APPEND)
    assert await gated.send("t", acks=0) == []
    await settled()
    assert partition.log.high_watermark == 0
    gated.pools.let_through()
    await settled()
    assert partition.log.high_watermark == 1


async def test_the_partitions_of_a_request_are_flushed_at_once_and_answered_together(gated: Gated) -> None:
    gated.hosted.create("t", config=ON_APPEND)
    gated.hosted.create("u", config=ON_APPEND)
    gated.hosted.create("v")
    sent = gated.send("t", "u", "v")
    await settled()
    assert len(gated.pools.waiting) == 2
    gated.pools.let_through()
    await settled()
    assert not sent.done()
    gated.pools.let_through()
    assert await sent == [(0, 0), (0, 0), (0, 0)]


async def test_a_repetition_is_answered_when_the_first_copy_is_durable(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=ON_APPEND)
    numbered = build_batch([(b"k", b"v")], timestamp=NOW_MS, producer_id=5, producer_epoch=0, base_sequence=0)
    both = [gated.send("t", batch=numbered) for _ in range(2)]
    await settled()
    assert not any(one.done() for one in both)
    gated.pools.let_through()
    assert [await one for one in both] == [[(0, 0)], [(0, 0)]]
    assert partition.log.log_end_offset == 1


async def test_a_coordinators_append_returns_when_the_high_watermark_has_passed_it(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=ON_APPEND)
    log = InternalLog("t", gated.hosted.manager, gated.pools.io)
    written = asyncio.create_task(log.append(0, build_batch([(b"k", b"v")], timestamp=NOW_MS)))
    await settled()
    assert not written.done()
    gated.pools.let_through()
    assert await written == 1
    assert partition.log.high_watermark == 1


async def test_a_coordinators_log_is_read_in_a_thread_of_its_directory(gated: Gated) -> None:
    partition = gated.hosted.create("__consumer_offsets")
    log = InternalLog("__consumer_offsets", gated.hosted.manager, gated.pools.io)
    await log.append(0, build_batch([(b"k", b"v")], timestamp=NOW_MS))
    first = asyncio.ensure_future(anext(log.scan(0)))
    await settled()
    assert not first.done()
    gated.pools.let_through()
    assert int.from_bytes((await first)[:8], "big") == 0
    assert gated.pools.passed == [os.path.dirname(partition.log.path)]


async def test_a_failed_sync_is_a_storage_error_for_everybody_who_waits_and_is_not_repeated(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = gated.hosted.create("t", config=ON_APPEND)
    runs = []

    def fail(plan: FlushPlan) -> None:
        runs.append(plan)
        raise StorageFailure("I/O error", partition.log.path)

    monkeypatch.setattr(FlushPlan, "run", fail)
    first = gated.send("t")
    await settled()
    second = gated.send("t")
    await settled()
    gated.pools.open()
    storage_error = [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert [await first, await second] == [storage_error, storage_error]
    assert gated.hosted.lost_dirs == [str(Path(partition.log.path).parent)]
    assert (partition.log.recovery_point, len(runs)) == (0, 1)
    assert await gated.send("t") == storage_error


async def test_a_topic_deleted_while_its_flush_runs_answers_and_harms_no_directory(gated: Gated) -> None:
    gated.hosted.create("t", config=by_count(1, segment_bytes=100))
    first = gated.send("t")
    await settled()
    second = gated.send("t")
    await settled()
    gated.hosted.delete("t")
    unknown = [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert [await first, await second] == [unknown, unknown]
    gated.pools.open()
    await settled()
    assert gated.hosted.lost_dirs == []


async def test_a_log_retired_while_its_flush_runs_harms_no_directory(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=by_count(1, segment_bytes=100))
    sent = gated.send("t")
    await settled()
    gated.hosted.logs.retire(partition.tp)
    gated.pools.open()
    await settled()
    assert gated.hosted.lost_dirs == []
    sent.cancel()


async def test_a_wait_that_is_given_up_leaves_the_others_waiting(gated: Gated) -> None:
    gated.hosted.create("t", config=ON_APPEND)
    gone, stays = gated.send("t"), gated.send("t")
    await settled()
    gone.cancel()
    await settled()
    gated.pools.let_through()
    assert await stays == [(0, 1)]


async def test_settings_that_change_hold_from_the_next_append_on(gated: Gated) -> None:
    partition = gated.hosted.create("t")
    await gated.send("t")
    gated.hosted.configure("t", ON_APPEND)
    held = gated.send("t")
    await settled()
    assert not held.done()
    gated.hosted.configure("t", LogConfig())
    behind = gated.send("t")
    await settled()
    assert (behind.done(), partition.log.high_watermark) == (False, 1)
    gated.pools.let_through()
    assert [await held, await behind] == [[(0, 1)], [(0, 2)]]
    assert await gated.send("t") == [(0, 3)]
    assert partition.is_immediate


async def test_flush_ms_makes_no_producer_wait_and_flushes_once_for_all_that_came(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=LogConfig(flush_ms=0))
    assert await gated.send("t") == [(0, 0)]
    assert partition.log.high_watermark == 1
    await gated.send("t")
    await settled()
    assert len(gated.pools.waiting) == 1
    gated.pools.let_through()
    await settled()
    assert partition.log.recovery_point == 2
    assert not gated.disk.flushes._timers
    await gated.send("t")
    assert gated.disk.flushes._timers


@pytest.mark.parametrize("first_ms, then_ms", [(600_000, 0), (2**62, 0), (600_000, 2**63 - 1), (0, 600_000)])
async def test_a_change_of_flush_ms_holds_for_what_is_unflushed_already(
    gated: Gated, first_ms: int, then_ms: int
) -> None:
    partition = gated.hosted.create("t", config=LogConfig(flush_ms=first_ms))
    await gated.send("t")
    gated.hosted.configure("t", LogConfig(flush_ms=then_ms))
    await settled()
    assert len(gated.pools.waiting) == (then_ms == 0)
    gated.pools.open()
    await settled()
    assert partition.log.recovery_point == (then_ms == 0)
    assert len(gated.disk.flushes._timers) == (then_ms == 600_000)


async def test_the_flush_scheduler_takes_only_what_is_due_and_unflushed(gated: Gated) -> None:
    flushes, clock = gated.disk.flushes, gated.hosted.clock
    late = gated.hosted.create("late", config=LogConfig(flush_ms=1000))
    for name in ("soon", "never", "clean"):
        gated.hosted.create(name, config=LogConfig(flush_ms={"soon": 5000, "clean": 1000}.get(name, 2**63 - 1)))
    for name in ("late", "soon", "never"):
        await gated.send(name)
    clock.wall_ms += 999
    flushes.flush_due(list(gated.hosted.manager))
    await settled()
    assert gated.pools.waiting == []
    clock.wall_ms += 1
    flushes.flush_due(list(gated.hosted.manager))
    await settled()
    assert len(gated.pools.waiting) == 1
    gated.pools.open()
    await settled()
    assert late.log.recovery_point == 1


async def test_a_rolled_segment_is_flushed_in_the_background(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=LogConfig(segment_bytes=200))
    for offset in range(3):
        assert await gated.send("t") == [(0, offset)]
    assert partition.log.durability.sealed_end_offset == 2
    gated.pools.open()
    await settled()
    assert partition.log.recovery_point == 2
    assert gated.disk.flushes.take_sealed()
    assert not gated.disk.flushes.take_sealed()


async def test_closing_waits_for_the_flush_that_runs(gated: Gated) -> None:
    gated.hosted.create("t", config=ON_APPEND)
    sent = gated.send("t")
    await settled()
    closed = asyncio.create_task(gated.disk.close())
    await settled()
    assert not closed.done()
    gated.pools.let_through()
    await closed
    assert await sent == [(0, 0)]


async def test_a_flush_that_breaks_unexpectedly_leaves_nobody_waiting(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.hosted.create("t", config=ON_APPEND)

    def broken(plan: FlushPlan) -> None:
        raise AssertionError("an invariant")

    monkeypatch.setattr(FlushPlan, "run", broken)
    sent = gated.send("t")
    await settled()
    gated.pools.let_through()
    assert await sent == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
