"""Scheduled topics with logs that are too long for one look, or that cannot be read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.api.offsets import EARLIEST, LATEST
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.log import pending_search
from storage.log.delivery import FEW_STEPS, MAX_STEPS
from storage.segment.later import READ_STEPS
from tests.harness.scheduled import E_MS, TOPIC, Scheduled
from tests.sim.faulty_fs import FaultyFS
from tests.unit.broker.api.test_fetch import Consumer, until
from tests.unit.broker.api.test_scheduled_delivery import parked, poll, seen

HOUR_MS = 3_600_000
MANY = 1200
"""Batches: more than one look goes over where no index helps."""


@pytest.fixture
def fs() -> FaultyFS:
    return FaultyFS()


@pytest.fixture
async def broker(tmp_path: Path, fs: FaultyFS) -> AsyncIterator[Scheduled]:
    broker = Scheduled(tmp_path, fs=fs)
    broker.create(index_interval_bytes=1 << 30)
    yield broker
    await broker.close()


def fill(broker: Scheduled, count: int = MANY) -> None:
    """Append batches that all come due after a second, and one that never does."""
    for _ in range(count):
        broker.append(1000)
    broker.append(HOUR_MS)


def watermark(broker: Scheduled) -> int:
    delivery = broker.partition.log.delivery
    assert delivery is not None
    return delivery.watermark


async def test_a_long_log_is_searched_beside_the_loop_and_who_waits_gets_what_is_known_so_far(
    broker: Scheduled,
) -> None:
    fill(broker)
    polling = poll(Consumer(broker.hosted, short=True))
    await parked(broker)
    broker.pass_ms(1000 + E_MS)
    delivery = broker.partition.log.delivery
    assert delivery is not None and delivery.is_behind and 0 < delivery.watermark < MANY
    async with asyncio.timeout(5):
        assert (await polling)[0] == 0
    await until(lambda: watermark(broker) == MANY)
    assert delivery.pending_timestamp is not None and not delivery.is_behind
    broker.pass_ms(HOUR_MS)
    assert watermark(broker) == MANY + 1, "what a search has come to is waited for"


@pytest.mark.parametrize("short", [False, True], ids=["long way", "short way"])
async def test_a_fetch_of_many_long_logs_looks_at_little_more_than_that_of_one_and_yet_at_each(
    broker: Scheduled, fs: FaultyFS, short: bool
) -> None:
    names = [f"many{number}" for number in range(20)]
    config = broker.hosted.configs[TOPIC]
    partitions = [broker.hosted.create(name, config=config) for name in names]
    for partition in partitions:
        for in_ms in (*[1000] * 600, HOUR_MS):
            partition.append(build_batch([(b"k", b"v")], timestamp=broker.now_ms + in_ms))
    broker.hosted.clock.wall_ms += 1000 + E_MS
    fs.reads.clear()
    response = await Consumer(broker.hosted, short=short).fetch(*((name, 0, 0) for name in names))
    released = [partition.delivery.watermark for partition in partitions]
    assert min(released) > 0 and len(fs.reads) >= len(names)
    assert MAX_STEPS // 2 < sum(released) + READ_STEPS * len(fs.reads) <= 2 * MAX_STEPS + len(names) * FEW_STEPS
    assert all(topic.partitions[0].records for topic in response.responses)


async def test_the_latest_offset_and_a_deletion_wait_until_a_long_log_is_known(broker: Scheduled) -> None:
    fill(broker)
    broker.hosted.clock.wall_ms += 1000 + E_MS
    assert await broker.list_offset() == MANY
    for _ in range(MANY):
        broker.append(1000)
    broker.append(2 * HOUR_MS)
    broker.hosted.clock.wall_ms += HOUR_MS
    assert await broker.delete_records(-1) == (0, 2 * MANY + 1)


async def test_who_asks_for_the_latest_offset_or_deletes_waits_no_longer_than_its_timeout(
    broker: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = asyncio.Event()

    async def slow(log_dir: str, call: Callable[[], Any]) -> Any:
        await disk.wait()
        return call()

    monkeypatch.setattr(broker.hosted.deliveries._searches, "_run_io", slow)
    fill(broker)
    broker.hosted.clock.wall_ms += 1000 + E_MS
    async with asyncio.timeout(5):
        assert await broker.try_list_offset(LATEST, 1) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert await broker.delete_records(-1, 0) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert broker.partition.log.log_start_offset == 0
        assert await broker.try_list_offset(EARLIEST, 1) == (0, 0)
        asking = asyncio.ensure_future(broker.try_list_offset(LATEST, 0))  # no timeout is a long one
        await asyncio.sleep(0)
        disk.set()
        assert await asking == (0, MANY)
        assert await broker.delete_records(-1, 0) == (0, MANY)


async def test_a_log_of_very_many_segments_is_searched_to_its_end(
    broker: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_search, "MAX_SEGMENTS", 1)
    broker.configure(segment_bytes=100)
    fill(broker, 80)
    broker = await broker.restart()
    broker.hosted.clock.wall_ms += 1000 + E_MS
    assert await broker.list_offset() == 80
    await broker.close()


async def test_who_waits_for_a_search_is_let_go_when_its_topic_is_deleted(broker: Scheduled) -> None:
    fill(broker)
    broker.hosted.clock.wall_ms += 1000 + E_MS
    waiting = asyncio.ensure_future(broker.partition.catch_up())
    await asyncio.sleep(0)
    broker.hosted.delete(TOPIC)
    async with asyncio.timeout(5):
        await waiting


async def test_who_waits_for_a_search_is_let_go_when_the_broker_stops(broker: Scheduled) -> None:
    fill(broker)
    broker.hosted.clock.wall_ms += 1000 + E_MS
    waiting = asyncio.ensure_future(broker.partition.catch_up())
    await asyncio.sleep(0)
    await broker.hosted.deliveries.close()
    async with asyncio.timeout(5):
        await waiting
    assert broker.hosted.timers.next_in_ms is None


async def test_a_log_that_cannot_be_read_holds_back_what_is_not_known_to_be_due_until_it_can(
    broker: Scheduled, fs: FaultyFS, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.produce(-1000)
    for ms in (100, 200, HOUR_MS):
        await broker.produce(ms)
    polling = poll(Consumer(broker.hosted), 1)
    await parked(broker)
    fault = fs.break_("read", broker.directory, ".log")
    broker.pass_ms(1000)
    assert watermark(broker) == 1
    assert await broker.list_offset() == 1
    assert broker.partition.visible(4) == 1 and not broker.hosted.lost_dirs
    broker.pass_ms(5000)
    await until(lambda: fault.met > 3)
    assert len([line for line in caplog.records if line.levelno >= logging.ERROR]) == 1
    fs.faults.clear()
    await until(lambda: broker.hosted.timers.next_in_ms is not None)
    broker.pass_ms(2000)
    async with asyncio.timeout(5):
        assert await polling == [1, 2]


async def test_segments_that_are_due_as_a_whole_are_looked_into_no_further_than_to_compare_their_indexes(
    broker: Scheduled, fs: FaultyFS
) -> None:
    broker.configure(segment_bytes=100)
    for _ in range(100):
        broker.append(-1000)
    broker.append(HOUR_MS)
    assert broker.partition.log.segment_count == 101
    again = await broker.restart()
    fs.reads.clear()
    assert await again.list_offset() == 100
    assert sum(path.endswith(".log") for path in fs.reads) <= 3 * 101
    await again.close()


async def test_an_immediate_topic_reads_no_header_to_be_fetched_or_asked_for_its_end(
    broker: Scheduled, fs: FaultyFS
) -> None:
    broker.configure(delivery_mode="immediate")
    for _ in range(10):
        broker.append(1000)
    consumer = Consumer(broker.hosted)
    await seen(consumer)
    fs.reads.clear()
    broker.pass_ms(5000)
    assert await broker.list_offset() == 10
    await consumer.one((TOPIC, 0, 10))
    assert not fs.reads
