"""Preallocated partitions: who waits for their writes, what those share, and how failures and deletions end a wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.partition import partition as partitions
from broker.partition.internal_log import InternalLog
from broker.partition.partition import READ_UNCOMMITTED
from config.views import LogConfig
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.log.direct_writes import LogWrite
from tests.harness.gate import Gated, settled
from tests.harness.hosted import NOW_MS
from tests.harness.wakes import Wakes
from tests.sim.logs import batches_of, read_all

DIRECT = LogConfig(preallocate=True, segment_bytes=1 << 20)


@pytest.fixture(autouse=True)
def _needs_direct_files(tmp_path: Path, gated: Gated) -> None:
    path = str(tmp_path / "probe")
    gated.hosted.fs.open(path, create=True).close()
    file = gated.hosted.fs.open_direct(path)
    if file is None:
        pytest.skip("the file system of the test directory does not tell how to write past the page cache")
    file.close()


async def test_an_append_is_answered_and_visible_after_its_write(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=DIRECT)
    waiter = Wakes()
    partition.waiters.add(waiter)
    sent = gated.send("t")
    await settled()
    assert (sent.done(), partition.is_held(1)) == (False, True)
    assert (partition.log.log_end_offset, partition.bound(READ_UNCOMMITTED), waiter.changed) == (1, 0, set())
    gated.pools.let_through()
    assert await sent == [(0, 0)]
    assert (partition.bound(READ_UNCOMMITTED), waiter.changed) == (1, {partition})
    assert not partition.is_held(1)
    assert gated.pools.passed == [str(Path(partition.log.path).parent)]


async def test_appends_that_come_while_a_write_runs_share_the_next_one(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=DIRECT)
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
    assert len(gated.pools.passed) == 2
    assert [header.base_offset for header in batches_of(read_all(partition.log))] == [0, 1, 2, 3, 4]


async def test_segments_roll_while_writes_run_and_nothing_is_lost(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=LogConfig(preallocate=True, segment_bytes=300))
    sent = [gated.send("t") for _ in range(10)]
    await settled()
    assert partition.log.segment_count == 4
    gated.pools.open()
    assert [await one for one in sent] == [[(0, offset)] for offset in range(10)]
    await settled()
    assert [header.base_offset for header in batches_of(read_all(partition.log))] == list(range(10))
    lengths = [segment.log.open().size() for segment in partition.log._state.segments]
    assert lengths[:3] == [segment.size for segment in partition.log._state.segments][:3]
    assert partition.log.recovery_point == 9


async def test_with_acks_0_a_producer_waits_once_too_much_is_unwritten(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MAX_UNWRITTEN_BYTES", 100)
    partition = gated.hosted.create("t", config=DIRECT)
    assert [await gated.send("t", acks=0), await gated.send("t", acks=0)] == [[], []]
    third, fourth = gated.send("t", acks=0), gated.send("t", acks=0)
    await settled()
    assert (third.done(), fourth.done(), partition.log.log_end_offset) == (False, False, 2)
    gated.pools.open()
    assert [await third, await fourth] == [[], []]
    await settled()
    assert (partition.log.high_watermark, partition.has_room) == (4, True)


async def test_a_due_flush_follows_the_write_and_both_are_waited_for(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=LogConfig(preallocate=True, flush_on_append=True))
    sent = gated.send("t")
    await settled()
    assert len(gated.pools.waiting) == 1
    gated.pools.let_through()
    await settled()
    assert (sent.done(), partition.log.direct_writes.has_unwritten, partition.log.high_watermark) == (False, False, 0)
    gated.pools.let_through()
    assert await sent == [(0, 0)]
    assert (partition.log.recovery_point, partition.log.high_watermark) == (1, 1)
    gated.pools.open()
    await asyncio.gather(*(gated.send("t") for _ in range(5)))
    assert partition.log.recovery_point == partition.log.high_watermark == 6


async def test_a_checkpoints_flush_covers_what_it_finds_in_memory(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=DIRECT)
    sent = gated.send("t")
    await settled()
    flushed = asyncio.create_task(gated.disk.flushes.flush(partition))
    await settled()
    assert not flushed.done()
    gated.pools.open()
    await asyncio.gather(sent, flushed)
    assert partition.log.recovery_point == 1


async def test_a_coordinators_append_returns_when_the_high_watermark_has_passed_it(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=DIRECT)
    log = InternalLog("t", gated.hosted.manager, gated.pools.io)
    written = asyncio.create_task(log.append(0, build_batch([(b"k", b"v")], timestamp=NOW_MS)))
    await settled()
    assert not written.done()
    gated.pools.let_through()
    assert await written == 1
    assert partition.log.high_watermark == 1


async def test_a_failed_write_is_a_storage_error_for_everybody_who_waits(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = gated.hosted.create("t", config=DIRECT)
    runs = []

    def fail(write: LogWrite) -> None:
        runs.append(write)
        raise StorageFailure("I/O error", partition.log.path)

    monkeypatch.setattr(LogWrite, "run", fail)
    first = gated.send("t")
    await settled()
    second = gated.send("t")
    await settled()
    gated.pools.open()
    storage_error = [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert [await first, await second] == [storage_error, storage_error]
    assert gated.hosted.lost_dirs == [str(Path(partition.log.path).parent)]
    assert (partition.log.high_watermark, len(runs)) == (0, 1)


async def test_a_write_that_breaks_unexpectedly_leaves_nobody_waiting(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.hosted.create("t", config=DIRECT)

    def broken(write: LogWrite) -> None:
        raise AssertionError("an invariant")

    monkeypatch.setattr(LogWrite, "run", broken)
    sent = gated.send("t")
    await settled()
    gated.pools.let_through()
    assert await sent == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)]


async def test_a_topic_deleted_while_its_write_runs_answers_and_harms_no_directory(gated: Gated) -> None:
    gated.hosted.create("t", config=DIRECT)
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


async def test_the_key_may_be_turned_on_and_off_under_load(gated: Gated) -> None:
    partition = gated.hosted.create("t", config=LogConfig(segment_bytes=1 << 20))
    assert await gated.send("t") == [(0, 0)]
    assert partition.is_immediate
    gated.hosted.configure("t", DIRECT)
    held = gated.send("t")
    await settled()
    assert (held.done(), partition.log.high_watermark) == (False, 1)
    gated.hosted.configure("t", LogConfig(segment_bytes=1 << 20))
    behind = gated.send("t")
    await settled()
    assert (behind.done(), partition.is_immediate) == (False, False)
    gated.pools.open()
    assert [await held, await behind] == [[(0, 1)], [(0, 2)]]
    await settled()
    assert partition.is_immediate
    assert await gated.send("t") == [(0, 3)]
    assert [header.base_offset for header in batches_of(read_all(partition.log))] == [0, 1, 2, 3]


async def test_closing_waits_for_the_write_that_runs(gated: Gated) -> None:
    gated.hosted.create("t", config=DIRECT)
    sent = gated.send("t")
    await settled()
    closed = asyncio.create_task(gated.disk.close())
    await settled()
    assert not closed.done()
    gated.pools.open()
    await closed
    assert await sent == [(0, 0)]
