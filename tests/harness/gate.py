"""Pools whose disks answer when the test says so: calls wait at a gate, and are run on the loop when let through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from broker.api.leaders import Leaders
from broker.api.produce import ProduceApi
from broker.background.disk_work import DiskWork
from broker.runtime.pools import Pools
from protocol.api_keys import ApiKey
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.builder import build_batch
from tests.harness.hosted import NOW_MS, Hosted, context
from tests.harness.verifying import ScriptedVerifier

T = TypeVar("T")


class GatedPools(Pools):
    """Hands calls through one by one, or all of them while the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        self.waiting: list[tuple[str, asyncio.Future[None]]] = []  # (pool, let through)
        self.passed: list[str] = []  # the pools of the calls that were run

    async def io(self, log_dir: str, call: Callable[[], T]) -> T:
        if not self.is_open:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append((log_dir, turn))
            await turn
        self.passed.append(log_dir)
        return call()

    def let_through(self, count: int = 1) -> None:
        """Let the calls that have waited longest go to the disk."""
        for _ in range(count):
            self.waiting.pop(0)[1].set_result(None)

    def open(self) -> None:
        """Let everything through from now on."""
        self.is_open = True
        self.let_through(len(self.waiting))


class Gated:
    """Two directories, the family that appends, and a disk that answers when the test says so."""

    def __init__(self, *directories: Path) -> None:
        self.pools = GatedPools()
        self.hosted = Hosted(*directories, pools=self.pools, page_cache_bytes=0)
        assert self.hosted.disk is not None
        self.disk: DiskWork = self.hosted.disk
        self.api = ProduceApi(
            self.hosted.manager,
            self.hosted.image,
            Leaders(self.hosted.image),
            self.pools,
            ScriptedVerifier(self.hosted.manager),
            frozenset(),
        )

    def send(
        self, *topics: str, size: int = 20, acks: int = -1, batch: bytes | None = None
    ) -> asyncio.Task[list[tuple[int, int]]]:
        """Begin a produce of one batch to each topic; it gives (error code, base offset) of each."""
        batch = build_batch([(b"k", b"v" * size)], timestamp=NOW_MS) if batch is None else batch
        return asyncio.get_running_loop().create_task(self._send(topics, batch, acks))

    async def _send(self, topics: tuple[str, ...], batch: bytes, acks: int) -> list[tuple[int, int]]:
        request = ProduceRequest(
            acks=acks,
            timeout_ms=100,
            transactional_id=None,
            topic_data=[
                TopicProduceData(
                    name=name, partition_data=[PartitionProduceData(index=0, records=memoryview(bytearray(batch)))]
                )
                for name in topics
            ],
        )
        response: Any = await self.api.produce(request, context(ApiKey.PRODUCE, 9))
        if response is None:
            return []
        return [
            (answer.error_code, answer.base_offset)
            for topic in response.responses
            for answer in topic.partition_responses
        ]


async def settled(turns: int = 20) -> None:
    """Give tasks their turns until nothing moves any more."""
    for _ in range(turns):
        await asyncio.sleep(0)
