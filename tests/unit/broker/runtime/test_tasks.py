"""Coroutines that run inline until they wait, and owned tasks."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.runtime.tasks import TaskOwner, start_inline


async def test_a_coroutine_that_never_waits_ends_inline_with_its_result() -> None:
    async def work() -> int:
        return 7

    assert start_inline(work()) == (True, 7)


async def test_a_coroutine_that_waits_goes_on_as_a_task_through_several_waits() -> None:
    first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    second: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        total = await first
        total += await second
        await asyncio.sleep(0)
        return total

    done, rest = start_inline(work())
    assert not done
    task = asyncio.ensure_future(rest)
    first.set_result(1)
    await asyncio.sleep(0)
    second.set_result(2)
    assert await task == 3


async def test_an_exception_of_the_awaited_future_reaches_the_coroutine() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await gate
        except ValueError as failure:
            return f"caught {failure}"
        return "nothing"

    _, rest = start_inline(work())
    gate.set_exception(ValueError("x"))
    assert await rest == "caught x"


async def test_cancelling_the_task_runs_the_coroutines_clean_up() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await gate
        finally:
            cleaned.append(True)

    _, rest = start_inline(work())
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]
    assert gate.cancelled()


async def test_an_owner_logs_a_failed_task_and_tells_it(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []
    owner = TaskOwner("unit", failures.append)

    async def fail() -> None:
        raise ValueError("broken")

    with caplog.at_level(logging.ERROR):
        task = owner.spawn("job", fail())
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert "unit/job" in caplog.text
    assert [str(failure) for failure in failures] == ["broken"]


async def test_closing_an_owner_waits_until_its_tasks_have_cleaned_up() -> None:
    owner = TaskOwner("unit")
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned")

    owner.spawn("job", work())
    await asyncio.sleep(0)
    await owner.close()
    assert steps == ["cleaned"]


async def test_tasks_of_one_name_are_waited_for_alone() -> None:
    owner = TaskOwner("owner")
    ends = {name: asyncio.Event() for name in ("a", "b")}
    for name, end in ends.items():
        owner.spawn(name, end.wait())
    waiting = asyncio.ensure_future(owner.join("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    ends["a"].set()
    assert await waiting
    assert not await owner.join("a") and len(owner) == 1
    ends["b"].set()
    assert await owner.join()
