"""Deadlines: fired in order, cheap to push back, one armed wake-up."""

import pytest

from broker.coordinator.timers import Timers
from tests.sim.groups import SimTime


async def test_a_timer_fires_once_at_its_deadline() -> None:
    time = SimTime()
    fired: list[float] = []
    timer = Timers(time).timer(lambda: fired.append(time.now_ms()))
    timer.start(100)
    await time.advance(99)
    assert fired == []
    await time.advance(1)
    assert fired == [100]
    await time.advance(1000)
    assert fired == [100]


async def test_a_pushed_back_timer_fires_at_the_last_deadline_with_one_heap_entry() -> None:
    time = SimTime()
    timers = Timers(time)
    fired: list[float] = []
    timer = timers.timer(lambda: fired.append(time.now_ms()))
    for _ in range(50):
        timer.start(100)
        assert len(timers._heap) == 1
        await time.advance(10)
    await time.advance(89)
    assert fired == []
    await time.advance(1)
    assert fired == [590]


async def test_a_timer_can_be_brought_forward_and_cancelled() -> None:
    time = SimTime()
    timers = Timers(time)
    fired: list[str] = []
    early = timers.timer(lambda: fired.append("early"))
    dropped = timers.timer(lambda: fired.append("dropped"))
    early.start(1000)
    dropped.start(10)
    early.start(50)
    dropped.cancel()
    await time.advance(60)
    assert fired == ["early"]
    early.start(940)
    await time.advance(2000)
    assert fired == ["early", "early"]


async def test_timers_fire_in_order_of_deadline_and_may_set_others() -> None:
    time = SimTime()
    timers = Timers(time)
    fired: list[str] = []
    second = timers.timer(lambda: fired.append("second"))

    def first() -> None:
        fired.append("first")
        second.start(5)

    timers.timer(lambda: fired.append("third")).start(30)
    timers.timer(first).start(10)
    await time.advance(100)
    assert fired == ["first", "second", "third"]


async def test_a_failing_callback_does_not_stop_the_others() -> None:
    time = SimTime()
    timers = Timers(time)
    fired: list[str] = []
    timers.timer(lambda: 1 / 0).start(10)  # type: ignore[arg-type]
    timers.timer(lambda: fired.append("later")).start(20)
    with pytest.raises(ZeroDivisionError):
        await time.advance(15)
    await time.advance(15)
    assert fired == ["later"]


async def test_a_wall_clock_that_is_set_back_moves_no_timer() -> None:
    time = SimTime()
    fired: list[float] = []
    Timers(time).timer(lambda: fired.append(time.now_ms())).start(100)
    time.wall_offset_ms -= 3_600_000
    await time.advance(100)
    assert fired == [100]
