"""The scheduler of scheduled topics: when it wakes up and whom it looks at."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.partition.delivery_scheduler import MAX_STALE_ENTRIES, ROUNDING_MS
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from tests.harness.delivery_stands import Stands
from tests.harness.hosted import NODE_ID, OTHER_ID
from tests.harness.scheduled import E_MS, FOREVER, SCHEDULED, TOPIC, Scheduled

HOUR_MS = 3_600_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Scheduled]:
    broker = Scheduled(tmp_path)
    yield broker
    await broker.close()


def wakeups_in(broker: Scheduled, ms: int) -> int:
    before = broker.hosted.delivery_stats.wakeups
    broker.pass_ms(ms)
    return broker.hosted.delivery_stats.wakeups - before


def watermark(broker: Scheduled) -> int:
    delivery = broker.partition.log.delivery
    assert delivery is not None
    return delivery.watermark


async def test_nothing_wakes_up_while_no_topic_is_scheduled(broker: Scheduled) -> None:
    broker.create(delivery_mode="immediate")
    await broker.produce(0)
    assert broker.hosted.timers.next_in_ms is None
    assert wakeups_in(broker, 10_000) == 0


async def test_a_scheduled_topic_without_pending_records_costs_one_look_a_second(broker: Scheduled) -> None:
    broker.create()
    broker.pass_ms(10)
    await broker.produce(at=0)
    assert wakeups_in(broker, 10_000) == 10


async def test_a_pending_record_is_released_when_it_comes_due_and_not_before(broker: Scheduled) -> None:
    broker.create()
    await broker.produce(300)
    assert broker.hosted.timers.next_in_ms == 550
    broker.pass_ms(549)
    assert watermark(broker) == 0
    broker.pass_ms(1)
    assert watermark(broker) == 1


async def test_an_earlier_record_of_another_partition_moves_the_timer(broker: Scheduled) -> None:
    other = broker.hosted.create("other", config=SCHEDULED)
    broker.create()
    await broker.produce(700)
    broker.pass_ms(1)
    other.append(build_batch([(b"k", b"v")], timestamp=broker.now_ms + 100))
    assert broker.hosted.timers.next_in_ms == 100 + E_MS


async def test_passes_are_a_millisecond_apart_however_much_is_due(broker: Scheduled) -> None:
    broker.create()
    for ms in (1, 1, 2, 2, 2, 3):
        await broker.produce(ms)
    assert wakeups_in(broker, E_MS + 10) <= 3 + 1
    assert watermark(broker) == 6


async def test_lateness_is_that_of_batches_that_were_seen_pending(broker: Scheduled) -> None:
    broker.create()
    await broker.produce(at=0)
    lateness = broker.hosted.delivery_stats.lateness
    assert lateness.count == 0
    await broker.produce(100)
    await broker.produce(100)
    await broker.produce(at=0)
    broker.pass_ms(HOUR_MS)
    assert (lateness.count, lateness.total) == (2, 0.0)


async def test_who_does_not_lead_a_partition_has_nothing_to_release_there(broker: Scheduled) -> None:
    broker.create()
    await broker.produce(HOUR_MS)
    assert len(broker.hosted.deliveries) == 1
    broker.hosted.lead(TOPIC, OTHER_ID, 1)
    assert not len(broker.hosted.deliveries) and broker.hosted.timers.next_in_ms is None
    broker.hosted.lead(TOPIC, NODE_ID, 2)
    assert len(broker.hosted.deliveries) == 1
    broker.pass_ms(HOUR_MS + E_MS)
    assert watermark(broker) == 1


async def test_a_deleted_topic_is_forgotten(broker: Scheduled) -> None:
    broker.create()
    await broker.produce(HOUR_MS)
    broker.hosted.delete(TOPIC)
    assert not len(broker.hosted.deliveries) and broker.hosted.timers.next_in_ms is None


async def test_what_lies_in_a_directory_that_fails_is_forgotten(broker: Scheduled) -> None:
    broker.create()
    await broker.produce(HOUR_MS)
    broker.hosted.manager.fail_dir_of(StorageFailure("I/O error", str(broker.directory)))
    assert not len(broker.hosted.deliveries) and broker.hosted.timers.next_in_ms is None


async def test_a_topic_that_changes_its_mode_comes_and_goes(broker: Scheduled) -> None:
    broker.create(delivery_mode="immediate", message_timestamp_after_max_ms=FOREVER)
    await broker.produce(1000)
    broker.configure(delivery_mode="scheduled")
    assert len(broker.hosted.deliveries) == 1
    broker.pass_ms(1249)
    assert watermark(broker) == 0
    broker.pass_ms(1)
    assert watermark(broker) == 1
    broker.configure(delivery_mode="immediate")
    assert not len(broker.hosted.deliveries) and broker.hosted.timers.next_in_ms is None


async def test_a_log_that_nobody_has_looked_into_is_looked_at_though_the_clock_is_set_back(broker: Scheduled) -> None:
    broker.create(delivery_mode="immediate")
    await broker.produce(0)
    broker.pass_ms(10_000)
    broker.configure(delivery_mode="scheduled")
    broker.set_clock(E_MS - 10_000)
    broker.pass_ms(1000)
    assert watermark(broker) == 1


@pytest.mark.parametrize(("by_ms", "word"), [(E_MS + ROUNDING_MS + 1, "early"), (-E_MS - ROUNDING_MS - 1, "late")])
async def test_a_clock_that_jumps_by_more_than_its_uncertainty_is_worth_a_warning(
    broker: Scheduled, caplog: pytest.LogCaptureFixture, by_ms: int, word: str
) -> None:
    broker.create()
    await broker.produce(HOUR_MS)
    broker.pass_ms(3000)
    assert not caplog.records
    broker.set_clock(by_ms)
    broker.pass_ms(3000)
    (line,) = caplog.records
    assert line.levelno == logging.WARNING and f"by_ms={by_ms}" in line.message and line.message.endswith(word)


async def test_a_small_step_of_the_clock_is_what_the_uncertainty_is_for(
    broker: Scheduled, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create()
    broker.pass_ms(3000)
    broker.set_clock(E_MS)
    broker.pass_ms(3000)
    broker.set_clock(-E_MS)
    broker.pass_ms(3000)
    assert not caplog.records


async def test_a_pass_over_many_partitions_lets_the_loop_go_on_after_each_millisecond() -> None:
    rig = Stands()
    for _ in range(7):
        rig.stand(50)
    assert rig.run_next() == 50
    looked_at = [len(rig.released)]
    while len(rig.released) < 7:
        assert rig.run_next() == 0
        looked_at.append(len(rig.released))
    assert looked_at == [3, 6, 7]
    assert rig.stats.wakeups == 1
    assert rig.run_next() == 1000


async def test_a_pass_sets_the_timer_once_at_its_end() -> None:
    rig = Stands()
    for then_ms in (900, 800, 700, 800):
        rig.stand(50).then_ms = then_ms
    rig.run_next()
    assert [delay_ms for delay_ms, _ in rig.calls] == [0]
    rig.run_next()
    (delay_ms, _), at_ms = rig.calls[0], rig.clock.now_ms()
    assert len(rig.calls) == 1 and at_ms + delay_ms == 700


async def test_what_comes_due_during_a_pass_waits_for_the_next_one() -> None:
    rig = Stands()
    for _ in range(4):
        rig.stand(50)
    rig.run_next()
    rig.stand(51)
    rig.run_next()
    assert len(rig.released) == 4
    assert rig.run_next() == 1
    assert len(rig.released) == 5 and rig.stats.wakeups == 2


async def test_one_that_goes_wrong_does_not_keep_the_others_and_is_looked_at_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Stands()
    first, _ = rig.stand(50), rig.stand(50)
    first.fails = True
    rig.run_next()
    assert rig.released == ["t-0", "t-1"] and "out of order" in caplog.text
    assert rig.deliveries.held_up == [first]
    first.fails = False
    assert rig.run_next() == 1000
    assert rig.released == ["t-0", "t-1", "t-0"]
    assert not rig.deliveries.held_up


async def test_one_that_goes_wrong_is_looked_at_again_though_the_clock_is_set_back() -> None:
    rig = Stands()
    first = rig.stand(50)
    first.fails = True
    rig.run_next()
    rig.clock.set_by_ms = -HOUR_MS
    first.fails = False
    rig.run_next()
    rig.run_next()
    assert rig.released == ["t-0", "t-0"]


async def test_one_that_goes_wrong_and_is_led_no_longer_is_held_up_no_longer() -> None:
    rig = Stands()
    first, _ = rig.stand(50), rig.stand(500)
    first.fails = True
    rig.run_next()
    first.delivery = None
    rig.deliveries.follow(first)  # type: ignore[arg-type]
    assert not rig.deliveries.held_up


async def test_who_is_followed_again_with_nothing_new_is_looked_at_once() -> None:
    rig = Stands()
    stand = rig.stand(50)
    rig.deliveries.follow(stand)  # type: ignore[arg-type]
    rig.run_next()
    assert rig.released == ["t-0"]


async def test_a_pass_that_is_cut_short_by_the_last_topic_leaves_nothing_behind() -> None:
    rig = Stands()
    stands = [rig.stand(50) for _ in range(4)]
    rig.run_next()
    for stand in stands:
        stand.delivery = None
        rig.deliveries.follow(stand)  # type: ignore[arg-type]
    assert not rig.calls
    rig.stand(90)
    assert rig.calls


async def test_who_goes_while_its_turn_is_to_come_is_looked_at_no_more() -> None:
    rig = Stands()
    *_, last = [rig.stand(50) for _ in range(4)]
    rig.run_next()
    last.delivery = None
    rig.deliveries.follow(last)  # type: ignore[arg-type]
    rig.run_next()
    assert rig.released == ["t-0", "t-1", "t-2"] and len(rig.deliveries) == 3


async def test_deadlines_that_were_overtaken_are_not_kept_for_ever() -> None:
    rig = Stands()
    stand = rig.stand(10_000_000)
    for due_ms in range(9_000_000, 9_000_000 - 3 * MAX_STALE_ENTRIES, -1):
        stand.due_ms = due_ms
        rig.deliveries.follow(stand)  # type: ignore[arg-type]
    assert len(rig.deliveries._heap) <= MAX_STALE_ENTRIES + 2


async def test_a_deadline_that_was_overtaken_wakes_nobody() -> None:
    rig = Stands()
    rig.stand(50)
    later = rig.stand(700)
    later.due_ms = 900
    rig.deliveries.follow(later)  # type: ignore[arg-type]
    assert [rig.run_next(), rig.run_next()] == [50, 850]
    assert rig.released == ["t-0", "t-1"]
