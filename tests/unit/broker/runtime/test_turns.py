"""A look at many things gives way to the loop, by the clock."""

from __future__ import annotations

import pytest

from broker.runtime.turns import ITEMS_PER_LOOK_AT_THE_CLOCK, TURN_NS, Turns


async def test_a_long_look_gives_the_loop_its_turn_after_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = slept = 0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1

    monkeypatch.setattr("broker.runtime.turns.asyncio.sleep", sleep)
    turns = Turns(lambda: now_ns)
    for _ in range(10 * ITEMS_PER_LOOK_AT_THE_CLOCK):
        now_ns += TURN_NS // 10
        await turns.next()
    assert slept == 10
    for _ in range(1000):
        await turns.next()
    assert slept == 10


async def test_what_takes_long_by_itself_is_followed_by_a_turn_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = slept = 0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1

    monkeypatch.setattr("broker.runtime.turns.asyncio.sleep", sleep)
    turns = Turns(lambda: now_ns)
    for _ in range(3):
        now_ns += TURN_NS
        await turns.rest()
    assert slept == 3
