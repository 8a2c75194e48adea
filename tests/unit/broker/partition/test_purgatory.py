"""Waiters: woken by what they wait for, or by their deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.partition.purgatory import LOOKS_PER_TURN, MAX_STALE_TICKS, Parked, Purgatory, Waiter, Waiting


@pytest.fixture
async def purgatory() -> Purgatory:
    return Purgatory(asyncio.get_running_loop())


def waiter_of(purgatory: Purgatory, wait_ms: int = 60_000) -> Waiter:
    return Waiter(purgatory, asyncio.get_running_loop(), wait_ms)


async def test_a_wake_ends_the_wait_and_tells_what_changed(purgatory: Purgatory) -> None:
    waiter = waiter_of(purgatory)
    waiting = asyncio.ensure_future(waiter.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiter.wake("a")
    waiter.wake("b")
    assert await waiting
    assert waiter.take() == {"a", "b"} and not waiter.take()


async def test_what_changed_before_the_wait_is_not_missed(purgatory: Purgatory) -> None:
    waiter = waiter_of(purgatory)
    waiter.wake("a")
    assert await waiter.wait()


async def test_what_was_taken_in_the_turn_in_which_it_changed_ends_no_wait(purgatory: Purgatory) -> None:
    waiter = waiter_of(purgatory)
    waiter.wake("a")
    assert waiter.take() == {"a"}
    waiting = asyncio.ensure_future(waiter.wait())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiter.wake("b")
    assert await waiting and waiter.take() == {"b"}


async def test_a_wait_whose_time_is_up_ends_with_nothing_changed(purgatory: Purgatory) -> None:
    waiter = waiter_of(purgatory, 10)
    assert not await waiter.wait()
    assert not await waiter.wait()


async def test_a_cancelled_wait_leaves_nothing_that_a_later_wake_could_trip_over(purgatory: Purgatory) -> None:
    waiter = waiter_of(purgatory)
    waiting = asyncio.ensure_future(waiter.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    waiter.wake("a")
    await asyncio.sleep(0)
    assert waiter.take() == {"a"}
    waiter.leave()
    assert not kept_by(purgatory)


# --- requests without a task ---


class Recorded(Parked):
    """Writes down what it is told."""

    def __init__(self, purgatory: Purgatory) -> None:
        super().__init__(purgatory)
        self.looks: list[set[object]] = []
        self.expired_at: float | None = None
        self.failure: Exception | None = None

    def look(self, changed: set[object]) -> None:
        self.looks.append(changed)
        if self.failure is not None:
            raise self.failure

    def expire(self) -> None:
        self.expired_at = self._purgatory._loop.time()
        self._purgatory.leave(self)


@pytest.mark.pure  # compiled classes are not extended by others
async def test_what_is_woken_in_a_turn_looks_once_at_its_end() -> None:
    purgatory = Purgatory(asyncio.get_running_loop())
    first, second, idle = (Recorded(purgatory) for _ in range(3))
    for one in (first, second, idle):
        purgatory.park(one, 60_000)
    for source in ("a", "b", "a"):
        first.wake(source)
    second.wake("b")
    assert not first.looks
    await asyncio.sleep(0)
    assert (first.looks, second.looks, idle.looks) == ([{"a", "b"}], [{"b"}], [])
    first.wake("c")
    await asyncio.sleep(0)
    assert first.looks == [{"a", "b"}, {"c"}]
    assert kept_by(purgatory) == {first, second, idle}


@pytest.mark.pure  # compiled classes are not extended by others
async def test_one_that_fails_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    purgatory = Purgatory(asyncio.get_running_loop())
    broken, sound = Recorded(purgatory), Recorded(purgatory)
    broken.failure = ValueError("broken")
    for one in (broken, sound):
        purgatory.park(one, 60_000)
        one.wake("a")
    await asyncio.sleep(0)
    assert sound.looks and "broken" in caplog.text


@pytest.mark.pure  # compiled classes are not extended by others
async def test_one_that_has_left_is_told_nothing_any_more() -> None:
    purgatory = Purgatory(asyncio.get_running_loop())
    parked = Recorded(purgatory)
    purgatory.park(parked, 1)
    parked.wake("a")
    purgatory.leave(parked)
    assert not kept_by(purgatory)
    last = Recorded(purgatory)
    purgatory.park(last, 2)
    await expired(last)
    assert not parked.looks and parked.expired_at is None


@pytest.mark.pure  # compiled classes are not extended by others
async def test_waits_end_in_their_order_and_never_too_early() -> None:
    loop = asyncio.get_running_loop()
    purgatory = Purgatory(loop)
    began = loop.time()
    waits = {wait_ms: Recorded(purgatory) for wait_ms in (30, 1, 10, 60_000)}
    for wait_ms, parked in waits.items():
        purgatory.park(parked, wait_ms)
    await expired(waits[30])
    ended = [waits[wait_ms].expired_at for wait_ms in (1, 10, 30)]
    assert all(at is not None and at >= began + wait_ms / 1000 for at, wait_ms in zip(ended, (1, 10, 30), strict=True))
    assert ended == sorted(at for at in ended if at is not None)
    assert waits[60_000].expired_at is None
    purgatory.expire_all()
    assert waits[60_000].expired_at is not None and not kept_by(purgatory)


@pytest.mark.pure  # compiled classes are not extended by others
async def test_one_that_parks_while_others_expire_is_not_forgotten() -> None:
    purgatory = Purgatory(asyncio.get_running_loop())
    first, later = Recorded(purgatory), Recorded(purgatory)

    class Again(Recorded):
        def expire(self) -> None:
            super().expire()
            purgatory.park(first, 1)

    again = Again(purgatory)
    purgatory.park(again, 1)
    purgatory.park(later, 20)
    await expired(first)
    await expired(later)


@pytest.mark.pure  # compiled classes are not extended by others
async def test_of_very_many_that_are_woken_some_look_with_each_turn_of_the_loop_and_each_once() -> None:
    purgatory = Purgatory(asyncio.get_running_loop())
    waits = [Recorded(purgatory) for _ in range(2 * LOOKS_PER_TURN + 1)]
    for parked in waits:
        purgatory.park(parked, 60_000)
        parked.wake("a")
    await asyncio.sleep(0)
    waits[0].wake("b")
    waits[-1].wake("b")
    looked = [sum(bool(parked.looks) for parked in waits)]
    while looked[-1] < len(waits) or len(waits[0].looks) < 2:
        await asyncio.sleep(0)
        looked.append(sum(bool(parked.looks) for parked in waits))
    assert looked == [LOOKS_PER_TURN, 2 * LOOKS_PER_TURN, len(waits)]
    assert (waits[0].looks, waits[-1].looks) == ([{"a"}, {"b"}], [{"a", "b"}])


class SteppedLoop:
    """A loop whose turns and time are the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.timer: Callable[[], None] | None = None

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> SteppedLoop:
        self.timer = callback
        return self

    def cancel(self) -> None:
        self.timer = None

    def fire(self) -> None:
        """Call what the timer is for."""
        callback, self.timer = self.timer, None
        assert callback is not None
        callback()

    def turn(self) -> None:
        """Call what was to be called with this turn."""
        called, self.soon = self.soon, []
        for callback in called:
            callback()


@pytest.mark.pure  # compiled classes are not extended by others
async def test_of_very_many_whose_time_is_up_at_once_some_go_on_with_each_turn_of_the_loop() -> None:
    loop = SteppedLoop()
    purgatory = Purgatory(loop)  # type: ignore[arg-type]
    waits = [Recorded(purgatory) for _ in range(2 * LOOKS_PER_TURN + 1)]
    for parked in waits:
        purgatory.park(parked, 10)
    later = Recorded(purgatory)
    purgatory.park(later, 11)
    loop.now = 0.010
    loop.fire()
    ended = [sum(parked.expired_at is not None for parked in waits)]
    loop.now = 0.011
    loop.fire()
    gone = next(parked for parked in waits if parked.expired_at is None)
    purgatory.leave(gone)
    while loop.soon:
        assert len(loop.soon) == 1
        loop.turn()
        ended.append(sum(parked.expired_at is not None for parked in waits))
    assert ended[0] == LOOKS_PER_TURN and ended[1] - ended[0] <= LOOKS_PER_TURN and ended[-1] == len(waits) - 1
    assert gone.expired_at is None and later.expired_at is not None and not kept_by(purgatory)


@pytest.mark.pure  # compiled classes are not extended by others
async def test_long_waits_that_end_early_leave_nothing_behind() -> None:
    loop = asyncio.get_running_loop()
    purgatory = Purgatory(loop)
    for wait_ms in range(3 * MAX_STALE_TICKS):
        parked = Recorded(purgatory)
        purgatory.park(parked, 1_000_000 + 10 * wait_ms)
        purgatory.leave(parked)
    assert len(purgatory._ticks) <= MAX_STALE_TICKS + 2


def kept_by(purgatory: Purgatory) -> set[Waiting]:
    return set().union(*purgatory._due.values())


async def expired(parked: Recorded) -> None:
    async with asyncio.timeout(5):
        while parked.expired_at is None:  # noqa: ASYNC110 - what is waited for is a state, not an event
            await asyncio.sleep(0)
