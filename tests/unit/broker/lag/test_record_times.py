"""Lookups of records' times: once an offset, beside the loop, and only for who goes on to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import broker.lag.record_times as record_times_module
import broker.lag.watch as watch_module
from broker.lag.record_times import UNKNOWABLE, PartitionTimes, RecordTimes
from broker.runtime.pools import Pools
from storage.errors import StorageFailure
from tests.harness.hosted import NOW_MS
from tests.unit.broker.lag.conftest import Bed


class CountingPools:
    """Passes calls on and remembers which offsets they were for."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self.looked_up: list[int] = []
        self.gate: asyncio.Event | None = None

    async def io(self, log_dir: str, call: Callable[[], Any]) -> Any:
        if self.gate is not None:
            await self.gate.wait()
        assert isinstance(call, partial)
        for plan in call.args[0]:
            self.looked_up += [wanted.offset for wanted in plan._wanted]
        return await self._pools.io(log_dir, call)


class Asker:
    """Asks for the times of some offsets of one partition."""

    def __init__(self, bed: Bed) -> None:
        self.failures: list[StorageFailure] = []
        self.pools = CountingPools(bed.hosted.pools)
        self.times = RecordTimes(self.pools, bed.hosted.clock.monotonic_ns, self.failures.append)  # type: ignore[arg-type]
        self.partition = bed.hosted.create("t")
        for _ in range(20):
            bed.produce("t")
            bed.pass_seconds(1)

    async def ask(self, *offsets: int, limit_seconds: float = 5.0) -> list[int | None]:
        self.times.begin()
        of = self.times.of(self.partition)
        for offset in offsets:
            of.ask(offset)
        await self.times.end(partial(asyncio.sleep, 0))
        await self.times.settle(limit_seconds)
        return [of.stamp(offset) for offset in offsets]


@pytest.fixture
def asker(bed: Bed) -> Asker:
    return Asker(bed)


async def test_an_offset_is_looked_up_once_as_long_as_it_is_asked_for(asker: Asker) -> None:
    assert await asker.ask(3, 5, 3) == [NOW_MS + 3000, NOW_MS + 5000, NOW_MS + 3000]
    await asker.ask(3, 5)
    await asker.ask(5, 7)
    assert asker.pools.looked_up == [3, 5, 7]
    await asker.ask(3)
    assert asker.pools.looked_up == [3, 5, 7, 3], "nobody had asked for it the last time"


async def test_many_offsets_go_in_chunks(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_times_module, "CHUNK_OFFSETS", 3)
    monkeypatch.setattr(record_times_module, "REST_FACTOR", 0)
    assert await asker.ask(*range(20)) == [NOW_MS + 1000 * offset for offset in range(20)]


async def test_a_slow_disk_keeps_nobody_waiting_and_answers_the_next_time(asker: Asker) -> None:
    asker.pools.gate = asyncio.Event()
    assert await asker.ask(3, limit_seconds=0) == [None]
    assert await asker.ask(3, 4, limit_seconds=0) == [None, None]
    asker.pools.gate.set()
    assert await asker.ask(3, 4) == [NOW_MS + 3000, NOW_MS + 4000]


async def test_what_a_log_that_was_cut_under_a_lookup_has_said_is_forgotten(asker: Asker, bed: Bed) -> None:
    asker.pools.gate = asyncio.Event()
    await asker.ask(3, limit_seconds=0)
    asker.partition.log.truncate_to(2)
    asker.pools.gate.set()
    await asker.times.settle(5)
    bed.produce("t", 4)
    assert await asker.ask(3) == [NOW_MS + 20_000]


async def test_a_disk_that_fails_is_told_of_and_damage_is_not_looked_at_again(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = asker.partition.log
    log._state.segments.active.log.open().write_at(bytes(16), 0)
    assert await asker.ask(3) == [None]
    assert await asker.ask(3) == [None]
    assert asker.pools.looked_up == [3]
    assert asker.failures == []

    def fails(*_args: Any, **_options: Any) -> Any:
        raise OSError(5, "bad disk")

    log._state.segments.active.release_files()
    monkeypatch.setattr(type(log._state.fs), "open", fails)
    assert await asker.ask(4) == [None]
    assert [failure.path for failure in asker.failures] == [log.path]


async def test_a_deleted_log_is_nobodys_failure(asker: Asker, bed: Bed) -> None:
    bed.hosted.delete("t")
    assert await asker.ask(3) == [None]
    assert asker.failures == []


async def test_until_a_time_is_looked_up_marks_say_about_when_it_was(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.hosted.create("t")
    bed.commit("g", "t", 0)
    await bed.look()
    bed.pass_seconds(10)
    bed.produce("t")
    monkeypatch.setattr(watch_module, "SETTLE_SECONDS", 0)
    assert await bed.seconds() == {("g", "t", "0"): 5.0}
    assert bed.watch._times is not None
    await bed.watch._times.settle(5)
    assert await bed.seconds() == {("g", "t", "0"): 0.0}


async def test_a_group_that_has_moved_on_is_where_it_was_until_the_new_place_is_looked_up(
    asker: Asker, bed: Bed
) -> None:
    await asker.ask(3, 9)
    asker.pools.gate = asyncio.Event()
    await asker.ask(12, limit_seconds=0)
    of = asker.times.of(asker.partition)
    assert of.stamp(12) is None
    assert of.appended_ms(12) == NOW_MS + 9000
    assert of.appended_ms(8) == NOW_MS + 3000
    assert of.appended_ms(2) is None
    asker.pools.gate.set()
    await asker.times.settle(5)
    assert of.appended_ms(12) == NOW_MS + 12_000


def test_a_record_without_a_time_waits_at_least_since_it_was_first_seen(bed: Bed) -> None:
    times = PartitionTimes(bed.hosted.create("t"))
    times.known = {3: UNKNOWABLE}
    assert times.appended_ms(3) is None
    times.follow(10, NOW_MS)
    times.follow(20, NOW_MS + 5000)
    assert times.appended_ms(3) == NOW_MS
    assert times.appended_ms(4) is None, "not looked up yet"
    assert times.appended_ms(12) == NOW_MS + 2500
