"""Group commit: whoever asks gets a run that began afterwards, and as few runs as that allows."""

from __future__ import annotations

import asyncio

import pytest

from broker.runtime.coalesced import Coalesced


class Job:
    """Takes what was changed when it begins; ends when the test says so."""

    def __init__(self) -> None:
        self.changed = 0
        self.saved = 0
        self.runs = 0
        self.gate = asyncio.Event()
        self.failures: list[Exception] = []

    async def __call__(self) -> None:
        self.runs += 1
        taken = self.changed
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop()
        self.saved = taken


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_who_ask_during_a_run_share_the_next_one() -> None:
    job = Job()
    save = Coalesced(job)
    seen = []

    async def change() -> None:
        job.changed += 1
        mine = job.changed
        await save()
        seen.append(job.saved >= mine)

    tasks = [asyncio.create_task(change())]
    await turns()
    tasks += [asyncio.create_task(change()) for _ in range(10)]
    await turns()
    assert (job.runs, seen) == (1, [])
    job.gate.set()
    await asyncio.gather(*tasks)
    assert (job.runs, seen) == (2, [True] * 11)
    await save()
    assert job.runs == 3


async def test_a_failed_run_serves_nobody_who_waits() -> None:
    job = Job()
    save = Coalesced(job)
    job.failures = [RuntimeError("first")]
    first = asyncio.create_task(save())
    await turns()
    others = [asyncio.create_task(save()) for _ in range(2)]
    job.gate.set()
    with pytest.raises(RuntimeError):
        await first
    await asyncio.gather(*others)
    assert job.runs == 2


async def test_a_cancelled_waiter_leaves_the_others_their_run() -> None:
    job = Job()
    save = Coalesced(job)
    tasks = [asyncio.create_task(save()) for _ in range(3)]
    await turns()
    tasks[0].cancel()
    tasks[1].cancel()
    job.gate.set()
    await tasks[2]
    assert job.runs == 2
