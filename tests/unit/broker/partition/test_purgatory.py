"""Waiters: woken by what they wait for, or by their deadline."""

from __future__ import annotations

import asyncio

from broker.partition.purgatory import Waiter


async def test_a_wake_ends_the_wait_and_tells_what_changed() -> None:
    loop = asyncio.get_running_loop()
    waiter = Waiter()
    waiting = asyncio.ensure_future(waiter.wait(loop, loop.time() + 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiter.wake("a")
    waiter.wake("b")
    assert await waiting
    assert waiter.changed == {"a", "b"}


async def test_what_changed_before_the_wait_is_not_missed() -> None:
    loop = asyncio.get_running_loop()
    waiter = Waiter()
    waiter.wake("a")
    assert await waiter.wait(loop, loop.time() + 60)


async def test_a_deadline_ends_the_wait_with_nothing_changed() -> None:
    loop = asyncio.get_running_loop()
    waiter = Waiter()
    assert not await waiter.wait(loop, loop.time() + 0.01)
    assert not await waiter.wait(loop, loop.time() - 1)


async def test_a_cancelled_wait_leaves_nothing_that_a_later_wake_could_trip_over() -> None:
    loop = asyncio.get_running_loop()
    waiter = Waiter()
    waiting = asyncio.ensure_future(waiter.wait(loop, loop.time() + 60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    waiter.wake("a")
    assert waiter.changed == {"a"}
