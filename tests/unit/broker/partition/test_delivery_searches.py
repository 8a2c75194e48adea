"""Searches of scheduled topics' long logs: which come first, and what becomes of one that comes to nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.partition.delivery_searches import MAX_ATTEMPTS, MAX_SEARCHES
from storage.errors import StorageFailure
from tests.harness.delivery_stands import Stands
from tests.harness.scheduled import E_MS, Scheduled
from tests.unit.broker.api.test_fetch import until


async def test_a_search_that_somebody_waits_for_comes_before_the_others() -> None:
    rig = Stands()
    stands = [rig.stand(50) for _ in range(3)]
    for stand in stands:
        stand.is_behind = True
    rig.run_next()
    assert not rig.searched
    await rig.deliveries.catch_up(stands[2])  # type: ignore[arg-type]
    assert rig.searched[0] == "t-2"
    await rig.searches_end()
    assert sorted(rig.searched) == ["t-0", "t-1", "t-2"]
    assert rig.most_running == MAX_SEARCHES
    await rig.deliveries.close()


async def test_a_search_that_goes_wrong_does_not_keep_the_others_and_is_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Stands()
    first, second, _ = stands = [rig.stand(50) for _ in range(3)]
    for stand in stands:
        stand.is_behind = True
    rig.run_next()
    first.fails = second.fails = True
    await rig.searches_end()
    assert rig.searched == ["t-0", "t-1", "t-2"] and "out of order" in caplog.text
    first.fails = second.fails = False
    while rig.run_next() < 900:
        pass
    await rig.searches_end()
    assert rig.searched[3:] == ["t-0", "t-1"]
    await rig.deliveries.close()


async def test_who_is_searched_is_not_looked_at_meanwhile() -> None:
    rig = Stands()
    rig.stand(50).is_behind = True
    rig.run_next()
    rig.run_next()  # what was noted before the search was asked for
    assert rig.run_next() == 1000
    await rig.deliveries.close()


async def test_who_could_not_be_searched_is_let_alone_for_a_second_whoever_fetches(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Stands()
    stand = rig.stand(50)
    stand.is_behind = True
    rig.run_next()
    stand.fails = True
    await rig.searches_end()
    rig.run_next()
    rig.deliveries.follow(stand)  # type: ignore[arg-type]
    assert rig.run_next() >= 999
    await rig.deliveries.close()


async def test_after_the_end_nobody_is_followed() -> None:
    rig = Stands()
    await rig.deliveries.close()
    rig.stand(50)
    assert not rig.calls and not len(rig.deliveries)


async def test_every_batch_of_a_long_release_is_in_the_histogram_once_there_is_time(tmp_path: Path) -> None:
    broker = Scheduled(tmp_path)
    broker.create()
    for _ in range(2000):
        broker.append(1000)
    broker.pass_ms(1000 + E_MS)
    delivery, lateness = broker.partition.delivery, broker.hosted.delivery_stats.lateness
    assert delivery is not None and delivery.watermark == 2000
    assert lateness.count < 2000
    await until(lambda: lateness.count == 2000)
    assert (lateness.counts[0], lateness.total) == (2000, 0.0) and not delivery.has_uncounted
    await broker.close()


async def test_what_cannot_be_counted_is_left_out_and_keeps_nothing_from_being_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(log_dir: str, call: Callable[[], Any]) -> Any:
        raise StorageFailure("I/O error", log_dir)

    broker = Scheduled(tmp_path)
    broker.create()
    for _ in range(600):
        broker.append(1000)
    with monkeypatch.context() as patch:
        patch.setattr(broker.hosted.deliveries._searches, "_run_io", broken)
        broker.pass_ms(1000 + E_MS)
        await until(lambda: not broker.hosted.deliveries._searches._running_count)
    counted = broker.hosted.delivery_stats.lateness.count
    assert 0 < counted < 600 and not caplog.records
    for _ in range(600):
        broker.append(1000)
    broker.pass_ms(1000 + E_MS)
    await until(lambda: broker.hosted.delivery_stats.lateness.count == counted + 600)
    await broker.close()


async def test_a_log_that_is_never_known_is_let_alone_after_some_searches() -> None:
    rig = Stands()
    stand = rig.stand(50)
    stand.is_behind = stand.stays_behind = True
    rig.run_next()
    await rig.searches_end()
    assert rig.searched == ["t-0"] * MAX_ATTEMPTS and rig.deliveries.held_up == [stand]
    await rig.deliveries.close()
