"""The runtime under random histories: commands of all kinds, a log that stalls and fails, a partition that goes.

Whatever happens: state is what the log says, in its order; an answer comes after its records are in the log, and a
refusal leaves nothing there; everybody is answered; and who came first to a shard is written first.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.coordinator.errors import CoordinatorError
from broker.coordinator.operations import InTransaction
from broker.coordinator.runtime import CoordinatorRuntime
from broker.coordinator.shard import CoordinatorRecord, Outcome
from broker.partition.partition import Marker
from protocol.errors import ErrorCode
from tests.sim.groups import MemoryLog, StorageDown, Tasks, error_code_of, settle


class Shard:
    """Keeps the keys that were replayed, and what was told of their writes."""

    def __init__(self, partition: int) -> None:
        self.keys: list[bytes] = []
        self.ended: list[int] = []

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        self.keys.append(record.key)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.ended.append(producer_id)

    def on_loaded(self) -> None: ...

    def on_unloaded(self) -> None: ...


class History:
    """One run over one partition."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log = MemoryLog()
        self.runtime: CoordinatorRuntime[Shard] = CoordinatorRuntime(
            "test", self.log, Tasks(), lambda: 1, lambda: 0.0, error_code_of, Shard, max_batch_bytes=600
        )
        self.runtime.load([0])
        self.shard = self.runtime.read(0)
        self.told: dict[bytes, ErrorCode] = {}
        self.answers: dict[str, asyncio.Task[object]] = {}

    def outcome(self, name: str) -> Outcome[str]:
        keys = [f"{name}/{n}".encode() for n in range(self.rng.choice([0, 1, 1, 1, 3]))]

        def written(code: ErrorCode) -> None:
            assert name.encode() not in self.told
            self.told[name.encode()] = code

        return Outcome(name, [CoordinatorRecord(key, b"v" * self.rng.choice([1, 90])) for key in keys], written)

    async def one(self, name: str) -> object:
        kind = self.rng.random()
        if kind < 0.1:
            marker = Marker(len(self.answers), 0, True, 0, 0)
            return await self.runtime.end_transaction(0, marker)
        if kind < 0.2:
            return await self.runtime.execute_in_transaction(0, lambda _: self.outcome(name), InTransaction(5, 0, None))
        if kind < 0.25:
            return await self.runtime.execute(0, self.refuse, is_combinable=self.rng.random() < 0.5)
        return await self.runtime.execute(0, lambda _: self.outcome(name), is_combinable=kind < 0.75)

    def refuse(self, shard: Shard) -> Outcome[str]:
        raise CoordinatorError("refused")

    async def step(self, number: int) -> None:
        action = self.rng.random()
        if action < 0.75:
            name = f"c{number}"
            self.answers[name] = asyncio.ensure_future(self.one(name))
        elif action < 0.85:
            if self.log.stall is None or self.log.stall.is_set():
                self.log.stall = asyncio.Event()
        elif action < 0.95 and self.log.stall is not None:
            self.log.failure = StorageDown() if self.rng.random() < 0.3 else None
            self.log.stall.set()
        if self.rng.random() < 0.5:
            await asyncio.sleep(0)

    async def finish(self) -> None:
        self.log.failure = None
        if self.log.stall is not None:
            self.log.stall.set()
        self.log.stall = None
        await settle()
        await asyncio.wait_for(asyncio.gather(*self.answers.values(), return_exceptions=True), 5)

    def check(self) -> None:
        stored = [record.key for record in self.log.records() if record.key is not None and b"/" in record.key]
        assert self.shard.keys == stored
        assert len(stored) == len(set(stored))
        names = [key.split(b"/")[0] for key in stored]
        assert names == sorted(names, key=lambda name: int(name[1:])), "first come, first written"
        for name, answer in self.answers.items():
            has_failed = answer.exception() is not None
            assert not (has_failed and name.encode() in names), f"{name} was refused and is in the log"
            assert has_failed or self.told.get(name.encode(), ErrorCode.NONE) is ErrorCode.NONE


@pytest.mark.parametrize("seed", range(60))
async def test_state_is_what_the_log_says_and_everybody_is_answered(seed: int) -> None:
    history = History(random.Random(seed))
    for number in range(80):
        await history.step(number)
    await history.finish()
    history.check()
    assert not history.runtime._gathering


@pytest.mark.parametrize("seed", range(20))
async def test_nobody_waits_for_a_partition_that_has_gone(seed: int) -> None:
    history = History(random.Random(seed))
    for number in range(40):
        await history.step(number)
    history.runtime.unload(0)
    await history.finish()
    assert all(answer.done() for answer in history.answers.values())
    with pytest.raises(CoordinatorError):
        history.runtime.read(0)
