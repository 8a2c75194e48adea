"""Gathering: whoever hands something in gets its own outcome, from a run with all that came meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.runtime.gathered import Gathered


class Job:
    """Doubles numbers when the test lets it; odd ones fail."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.runs.append(list(items))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return [ValueError(item) if item % 2 else 2 * item for item in items]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_handed_in_during_a_run_shares_the_next_one() -> None:
    job = Job()
    double = Gathered("doubles", job)
    tasks = [asyncio.create_task(double(0))]
    await turns()
    tasks += [asyncio.create_task(double(number)) for number in (2, 4, 6)]
    await turns()
    assert job.runs == [[0]]
    job.gate.set()
    assert await asyncio.gather(*tasks) == [0, 4, 8, 12]
    assert job.runs == [[0], [2, 4, 6]]


async def test_an_item_that_fails_leaves_the_others_their_results() -> None:
    job = Job()
    double = Gathered("doubles", job)
    job.gate.set()
    tasks = [asyncio.create_task(double(number)) for number in (0, 1, 2)]
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, third) == (0, 4) and isinstance(second, ValueError)


async def test_a_job_that_fails_fails_everybody_and_the_next_one_is_tried() -> None:
    job = Job()
    double = Gathered("doubles", job)
    tasks = [asyncio.create_task(double(0))]
    await turns()
    tasks += [asyncio.create_task(double(number)) for number in (2, 4)]
    job.failure = OSError("as if the disk were broken")
    job.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes == [job.failure] * 3
    job.failure = None
    assert await double(8) == 16


async def test_whoever_is_cancelled_while_waiting_takes_its_item_back() -> None:
    job = Job()
    double = Gathered("doubles", job)
    tasks = [asyncio.create_task(double(0))]
    await turns()
    tasks += [asyncio.create_task(double(number)) for number in (2, 4)]
    await turns()
    tasks[1].cancel()
    await turns()
    job.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [outcomes[0], outcomes[2]] == [0, 8] and isinstance(outcomes[1], asyncio.CancelledError)
    assert job.runs == [[0], [4]]


async def test_whoever_is_cancelled_during_its_run_leaves_the_others_their_results() -> None:
    job = Job()
    double = Gathered("doubles", job)
    tasks = [asyncio.create_task(double(number)) for number in (0, 2)]
    await turns()
    tasks[0].cancel()
    await turns()
    job.gate.set()
    assert await tasks[1] == 4
    assert job.runs == [[0, 2]]
    assert await double(6) == 12


async def test_nobody_waits_for_items_that_were_all_taken_back() -> None:
    job = Job()
    double = Gathered("doubles", job)
    tasks = [asyncio.create_task(double(number)) for number in (0, 2)]
    await turns(1)
    for task in tasks:
        task.cancel()
    await turns()
    job.gate.set()
    assert await double(6) == 12
    assert job.runs[-1] == [6]
