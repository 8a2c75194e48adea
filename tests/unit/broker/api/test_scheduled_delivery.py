"""Scheduled topics through Fetch, ListOffsets and DeleteRecords, in time of their own: what is seen, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.api.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from broker.partition.partition import READ_COMMITTED
from protocol.errors import ErrorCode
from tests.harness.scheduled import E_MS, FOREVER, TOPIC, Scheduled
from tests.unit.broker.api.test_fetch import Consumer, offsets, until
from tests.unit.broker.api.test_fetch_committed import aborted, begin, end

HOUR_MS = 3_600_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Scheduled]:
    broker = Scheduled(tmp_path)
    broker.create()
    yield broker
    await broker.close()


@pytest.fixture(params=[False, True], ids=["long way", "short way"])
async def consumer(broker: Scheduled, request: pytest.FixtureRequest) -> Consumer:
    return Consumer(broker.hosted, short=request.param)


async def seen(consumer: Consumer, offset: int = 0, **options: int) -> list[int]:
    """Fetch what is there now; give the base offsets."""
    data = await consumer.one((TOPIC, 0, offset), **options)
    assert not data.error_code
    return offsets(data)


def poll(consumer: Consumer, offset: int = 0, **options: int) -> asyncio.Task[list[int]]:
    """Begin a fetch that waits for long."""
    return asyncio.ensure_future(seen(consumer, offset, max_wait_ms=30_000, **options))


async def parked(broker: Scheduled, count: int = 1) -> None:
    await until(lambda: len(broker.partition.waiters) == count)


# --- 1 to 5: when records become visible ---


async def test_a_record_is_hidden_until_its_time_and_the_uncertainty_have_passed(
    broker: Scheduled, consumer: Consumer
) -> None:
    assert await broker.produce(1000) == (0, 0)
    data = await consumer.one((TOPIC, 0, 0))
    assert (offsets(data), data.error_code, data.high_watermark, data.last_stable_offset) == ([], 0, 1, 1)
    assert broker.partition.log.log_end_offset == 1
    assert await broker.list_offset(LATEST) == 0
    broker.pass_ms(1249)
    assert await seen(consumer) == []
    assert await broker.list_offset(LATEST) == 0
    broker.pass_ms(1)
    assert await broker.list_offset(LATEST) == 1
    assert await seen(consumer) == [0]


async def test_the_first_fetch_that_comes_late_enough_sees_a_record_though_no_pass_has_run(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(1000)
    broker.hosted.clock.wall_ms += 1249
    assert await seen(consumer) == []
    broker.hosted.clock.wall_ms += 1
    assert await seen(consumer) == [0]


@pytest.mark.parametrize("at", [0, -1, 1_000])
async def test_a_past_time_or_none_is_visible_at_once(broker: Scheduled, consumer: Consumer, at: int) -> None:
    assert await broker.produce(at=at) == (0, 0)
    assert await seen(consumer) == [0]
    assert await broker.produce(-E_MS) == (0, 1)
    assert await seen(consumer, 1) == [1]


async def test_a_record_for_now_is_visible_after_the_uncertainty(broker: Scheduled, consumer: Consumer) -> None:
    await broker.produce(0)
    broker.pass_ms(E_MS - 1)
    assert await seen(consumer) == []
    broker.pass_ms(1)
    assert await seen(consumer) == [0]


async def test_a_due_record_stays_behind_a_pending_one_and_both_come_in_one_fetch(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(10_000)
    await broker.produce(at=0)
    for _ in range(2):
        assert await seen(consumer) == []
        assert await seen(consumer, 1) == []  # nobody gets around the head of the line
        broker.pass_ms(10_249 // 2)
    broker.pass_ms(2)
    assert await seen(consumer) == [0, 1]


async def test_a_long_poll_returns_when_a_record_comes_due(broker: Scheduled, consumer: Consumer) -> None:
    await broker.produce(1000)
    polling = poll(consumer)
    await parked(broker)
    broker.pass_ms(1249)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not polling.done()
    broker.pass_ms(1)
    async with asyncio.timeout(5):
        assert await polling == [0]
    assert not broker.partition.waiters


async def test_a_long_poll_ends_with_what_came_due_though_no_pass_has_run(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(1000)
    polling = asyncio.ensure_future(seen(consumer, max_wait_ms=20))
    await parked(broker)
    broker.hosted.clock.wall_ms += 1250
    async with asyncio.timeout(5):
        assert await polling == [0]
    assert not broker.hosted.delivery_stats.wakeups


async def test_a_fetch_at_the_very_millisecond_a_record_comes_due_waits_for_nothing(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(1000)
    broker.hosted.clock.wall_ms += 1000 + E_MS
    async with asyncio.timeout(5):
        assert await poll(consumer) == [0]
    assert not broker.hosted.delivery_stats.wakeups


async def test_min_bytes_counts_only_what_is_visible(broker: Scheduled, consumer: Consumer) -> None:
    await broker.produce(-1000)
    size = broker.partition.log.size_bytes
    await broker.produce(1000)
    polling = poll(consumer, min_bytes=size + 1)
    await parked(broker)
    await broker.produce(-1000)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not polling.done()
    broker.pass_ms(1250)
    async with asyncio.timeout(5):
        assert await polling == [0, 1, 2]


async def test_an_append_behind_a_pending_record_wakes_nobody(broker: Scheduled, consumer: Consumer) -> None:
    await broker.produce(1000)
    polling = poll(consumer)
    await parked(broker)
    (waiter,) = broker.partition.waiters
    await broker.produce(-1000)
    assert not waiter.changed  # type: ignore[attr-defined]
    polling.cancel()


async def test_committed_records_are_visible_below_both_the_open_transaction_and_the_pending_record(
    broker: Scheduled, consumer: Consumer
) -> None:
    partition = broker.partition
    await broker.produce(-1000)
    begin(partition, 5)
    broker.pass_ms(E_MS)
    assert await seen(consumer, isolation_level=READ_COMMITTED) == [0]
    assert await seen(consumer) == [0, 1]
    end(partition, 5, commit=True)
    assert await seen(consumer, isolation_level=READ_COMMITTED) == [0, 1]  # the marker itself is pending
    assert await broker.list_offset(isolation_level=READ_COMMITTED) == 2
    broker.pass_ms(E_MS)
    assert await broker.list_offset(isolation_level=READ_COMMITTED) == 3
    await broker.produce(1000)
    begin(partition, 6)
    assert await seen(consumer, 3, isolation_level=READ_COMMITTED) == []
    assert partition.log.last_stable_offset == 4
    broker.pass_ms(1000 + E_MS)
    assert await seen(consumer, 3, isolation_level=READ_COMMITTED) == [3]


async def test_a_commit_wakes_who_waits_for_committed_records_that_are_due(
    broker: Scheduled, consumer: Consumer
) -> None:
    begin(broker.partition, 5)
    broker.pass_ms(E_MS)
    polling = poll(consumer, isolation_level=READ_COMMITTED)
    await parked(broker)
    end(broker.partition, 5, commit=True)
    async with asyncio.timeout(5):
        assert await polling == [0]


async def test_what_is_aborted_before_its_time_is_never_delivered(broker: Scheduled, consumer: Consumer) -> None:
    begin(broker.partition, 5)
    end(broker.partition, 5, commit=False)
    data = await consumer.one((TOPIC, 0, 0), isolation_level=READ_COMMITTED)
    assert (offsets(data), aborted(data)) == ([], [])
    broker.pass_ms(E_MS)
    data = await consumer.one((TOPIC, 0, 0), isolation_level=READ_COMMITTED)
    assert (offsets(data), aborted(data)) == ([0, 1], [(5, 0)])


# --- 9 to 11: replicas, retention's neighbours ---


async def test_acks_all_is_answered_before_the_time_and_whoever_is_no_consumer_sees_the_log_end(
    broker: Scheduled,
) -> None:
    assert await broker.produce(1000, acks=-1) == (0, 0)
    log = broker.partition.log
    assert (log.high_watermark, await broker.list_offset(LATEST, replica_id=2)) == (1, 1)
    copied = log.read(0, max_bytes=1 << 20, bound=log.log_end_offset, min_one_batch=True)
    assert copied.region is not None
    copied.region.release()


async def test_delete_records_stops_at_the_first_pending_record(broker: Scheduled) -> None:
    for ms in (-1000, -1000, 1000, -1000):
        await broker.produce(ms)
    assert await broker.delete_records(5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await broker.delete_records(1) == (0, 1)
    assert await broker.delete_records(4) == (0, 2)
    assert await broker.delete_records(-1) == (0, 2)
    assert await broker.delete_records(0) == (0, 2)
    broker.pass_ms(1250)
    assert await broker.delete_records(-1) == (0, 4)


async def test_other_offsets_than_the_latest_are_found_over_pending_records_too(broker: Scheduled) -> None:
    for ms in (-1000, 1000, 5000, 2000):
        await broker.produce(ms)
    assert await broker.list_offset(LATEST) == 1
    assert await broker.list_offset(EARLIEST) == 0
    assert await broker.list_offset(MAX_TIMESTAMP) == 2
    assert await broker.list_offset(broker.now_ms + 1001) == 2
    assert await broker.list_offset(broker.now_ms + 5001) == -1


# --- 13 to 18: cuts, clocks, restarts, modes ---


async def test_after_a_cut_below_a_pending_record_what_is_appended_there_is_visible_in_its_own_time(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(at=0)
    await broker.produce(1000)
    assert await broker.list_offset() == 1
    broker.partition.log.truncate_to(0)
    assert await seen(consumer) == []
    assert await broker.list_offset() == 0
    await broker.produce(at=0)
    assert await seen(consumer) == [0]
    await broker.produce(2000)
    broker.pass_ms(1250)
    assert await seen(consumer) == [0]


async def test_what_was_released_stays_so_when_the_clock_goes_back(broker: Scheduled, consumer: Consumer) -> None:
    await broker.produce(0)
    broker.pass_ms(E_MS)
    assert await seen(consumer) == [0]
    broker.set_clock(-HOUR_MS)
    assert await seen(consumer) == [0]
    await broker.produce(0)
    broker.pass_ms(E_MS - 1)
    assert await seen(consumer) == [0]
    broker.pass_ms(1)
    assert await seen(consumer) == [0, 1]


async def test_a_clock_that_goes_forward_is_noticed_within_a_second(broker: Scheduled, consumer: Consumer) -> None:
    await broker.produce(HOUR_MS)
    polling = poll(consumer)
    await parked(broker)
    broker.set_clock(HOUR_MS + E_MS)
    broker.pass_ms(1000)
    async with asyncio.timeout(5):
        assert await polling == [0]


async def test_after_a_restart_the_pending_is_pending_and_the_released_is_released(broker: Scheduled) -> None:
    await broker.produce(0)
    broker.pass_ms(E_MS)
    await broker.produce(1000)
    await broker.produce(at=0)
    again = await broker.restart()
    consumer = Consumer(again.hosted)
    assert await again.list_offset() == 1
    assert await seen(consumer) == [0]
    polling = poll(consumer, 1)
    await parked(again)
    again.pass_ms(1250)
    async with asyncio.timeout(5):
        assert await polling == [1, 2]
    await again.close()


async def test_a_fetch_that_waits_is_woken_when_the_mode_becomes_immediate(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(HOUR_MS)
    polling = poll(consumer)
    await parked(broker)
    broker.configure(delivery_mode="immediate")
    async with asyncio.timeout(5):
        assert await polling == [0]
    assert await broker.list_offset() == 1
    assert broker.hosted.timers.next_in_ms is None


async def test_a_topic_that_becomes_scheduled_hides_what_is_not_due(broker: Scheduled, consumer: Consumer) -> None:
    broker.configure(delivery_mode="immediate", message_timestamp_after_max_ms=FOREVER)
    await broker.produce(-HOUR_MS)
    await broker.produce(HOUR_MS)
    assert await seen(consumer) == [0, 1]
    broker.configure(delivery_mode="scheduled")
    assert await seen(consumer) == [0]
    assert await broker.list_offset() == 1
    polling = poll(consumer, 1)
    await parked(broker)
    broker.pass_ms(HOUR_MS + E_MS)
    async with asyncio.timeout(5):
        assert await polling == [1]


async def test_what_was_released_while_scheduled_stays_so_through_both_changes_of_the_mode(
    broker: Scheduled, consumer: Consumer
) -> None:
    await broker.produce(0)
    broker.pass_ms(E_MS)
    assert await seen(consumer) == [0]
    broker.configure(delivery_mode="immediate")
    broker.set_clock(-HOUR_MS)
    broker.configure(delivery_mode="scheduled")
    assert await seen(consumer) == [0]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])
async def test_a_batch_becomes_visible_as_a_whole_at_its_largest_time(
    broker: Scheduled, consumer: Consumer, codec: int
) -> None:
    assert await broker.produce(100, 2000, 50, codec=codec) == (0, 0)
    broker.pass_ms(2249)
    assert await seen(consumer) == []
    assert await broker.list_offset() == 0
    broker.pass_ms(1)
    assert await seen(consumer) == [0]
    assert await broker.list_offset() == 3


async def test_a_fetch_of_an_immediate_topic_asks_no_schedule_and_sees_the_far_future(
    broker: Scheduled, consumer: Consumer
) -> None:
    broker.configure(delivery_mode="immediate", message_timestamp_after_max_ms=FOREVER)
    await broker.produce(at=FOREVER)
    assert await seen(consumer) == [0]
    assert (await broker.list_offset(), broker.partition.log.delivery) == (1, None)
    assert not len(broker.hosted.deliveries) and broker.hosted.timers.next_in_ms is None
