"""Producing to scheduled topics: how far ahead, in what order, and retries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.partition.partition import READ_COMMITTED
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from protocol.records.crc import crc32c
from tests.harness.scheduled import E_MS, FOREVER, Scheduled

INVALID_TIMESTAMP = ErrorCode.INVALID_TIMESTAMP
MAX_DELAY_MS = 1000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Scheduled]:
    broker = Scheduled(tmp_path)
    broker.create()
    yield broker
    await broker.close()


async def test_a_time_beyond_the_largest_delay_is_refused(broker: Scheduled) -> None:
    broker.configure(delivery_max_delay_ms=MAX_DELAY_MS)
    assert await broker.produce(MAX_DELAY_MS) == (0, 0)
    assert await broker.produce(MAX_DELAY_MS + 1) == (INVALID_TIMESTAMP, -1)
    assert broker.message and "delivery.max.delay.ms" in broker.message
    assert await broker.produce(at=FOREVER) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(0, MAX_DELAY_MS + 1) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(at=0) == (0, 1)
    broker.configure(delivery_max_delay_ms=0)
    assert await broker.produce(1) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(0) == (0, 2)


async def test_without_a_largest_delay_a_record_for_the_end_of_time_is_taken_and_stays_pending(
    broker: Scheduled,
) -> None:
    broker.configure(delivery_max_delay_ms=-1)
    assert await broker.produce(at=FOREVER) == (0, 0)
    broker.set_clock(FOREVER - broker.now_ms - 10_000)
    broker.pass_ms(2000)
    assert await broker.list_offset() == 0


@pytest.mark.parametrize("is_late", [False, True], ids=["limit lowered", "time passed"])
async def test_the_retry_of_an_accepted_batch_is_answered_with_its_offset(broker: Scheduled, is_late: bool) -> None:
    batch = build_batch(
        [(b"k", b"v")], timestamp=broker.now_ms + 60_000, producer_id=7, producer_epoch=0, base_sequence=0
    )
    assert await broker.produce(batch=batch) == (0, 0)
    await broker.produce(120_000)
    if is_late:
        broker.pass_ms(90_000)
    broker.configure(delivery_max_delay_ms=0, delivery_schedule_monotonic=True)
    assert await broker.produce(batch=batch) == (0, 0)
    assert broker.partition.log.log_end_offset == 2


async def test_a_schedule_that_goes_back_is_refused_where_it_must_not(broker: Scheduled) -> None:
    broker.configure(delivery_schedule_monotonic=True, delivery_max_delay_ms=-1)
    assert await broker.produce(100) == (0, 0)
    assert await broker.produce(100) == (0, 1)
    assert await broker.produce(99) == (INVALID_TIMESTAMP, -1)
    assert broker.message and "delivery.schedule.monotonic" in broker.message
    assert await broker.produce(200, 99) == (0, 2)
    assert await broker.produce(199) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(at=FOREVER) == (0, 4)
    assert await broker.produce(300) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(at=FOREVER) == (0, 5)


async def test_a_topic_takes_old_and_far_times_which_an_immediate_one_would_refuse(broker: Scheduled) -> None:
    broker.configure(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    assert await broker.produce(-10_000) == (0, 0)
    assert await broker.produce(10_000) == (0, 1)
    broker.configure(delivery_mode="immediate")
    assert await broker.produce(-10_000) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(10_000) == (INVALID_TIMESTAMP, -1)


async def test_a_header_that_understates_its_records_is_corrected_before_it_is_judged(broker: Scheduled) -> None:
    broker.configure(delivery_max_delay_ms=MAX_DELAY_MS)
    batch = _understated(broker.now_ms, MAX_DELAY_MS + 1)
    assert await broker.produce(batch=batch) == (INVALID_TIMESTAMP, -1)
    assert await broker.produce(batch=_understated(broker.now_ms, MAX_DELAY_MS)) == (0, 0)
    broker.pass_ms(E_MS)
    assert await broker.list_offset(isolation_level=READ_COMMITTED) == 0
    broker.pass_ms(MAX_DELAY_MS)
    assert await broker.list_offset(isolation_level=READ_COMMITTED) == 2


def _understated(now_ms: int, ahead_ms: int) -> bytearray:
    """Build a batch whose header claims that all is due, with a sound checksum."""
    batch = build_batch([(b"k", b"v", (), now_ms), (b"k", b"v", (), now_ms + ahead_ms)])
    batch[35:43] = now_ms.to_bytes(8, "big")
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch
