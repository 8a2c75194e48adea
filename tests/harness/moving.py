"""Moves between log directories over real logs; threads run on the loop, when the test lets them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from broker.background.checkpoints import Checkpoints
from broker.background.moves.move import Move
from broker.background.moves.run import Moves
from broker.partition.partition import Partition
from config.views import LogConfig, LogManagerConfig, MoveConfig
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.types import TopicPartition
from tests.harness.cleaning import CleanerBed
from tests.harness.hosted import NOW_MS, Hosted
from tests.sim.logs import read_all

CONFIG = MoveConfig(threads=1, backoff_ms=1_000)


class HeldPools:
    """Runs calls on the loop, one turn later; those of pools that are held wait until they are let through."""

    def __init__(self) -> None:
        self.held: Callable[[str], bool] = lambda pool: False
        self.waiting: list[tuple[str, asyncio.Event]] = []
        self.calls: list[str] = []  # the pools of the calls that were run
        self.before: Callable[[str, Any], None] = lambda pool, call: None

    async def io(self, pool: str, call: Callable[[], Any]) -> Any:
        if self.held(pool):
            turn = asyncio.Event()
            self.waiting.append((pool, turn))
            await turn.wait()
        else:
            await asyncio.sleep(0)
        self.before(pool, call)
        self.calls.append(pool)
        return call()

    def let_through(self, count: int = 1) -> None:
        """Let the calls go on that have waited longest."""
        for _ in range(count):
            self.waiting.pop(0)[1].set()


class MoveBed:
    """Partitions in several directories, their moves, and what the metadata are told."""

    def __init__(self, *directories: Path, config: MoveConfig = CONFIG, **options: Any) -> None:
        self.pools: Any = HeldPools()
        self.hosted = Hosted(*directories, pools=self.pools, **options)
        assert self.hosted.disk is not None
        self.disk = self.hosted.disk
        self.logs, self.clock = self.hosted.logs, self.hosted.clock
        self.cleaner = CleanerBed(self.hosted).cleaner
        self.checkpoints = Checkpoints(
            self.logs, self.hosted.manager, self.disk.flushes, self.pools, self.clock, LogManagerConfig()
        )
        self.assigned: list[tuple[TopicPartition, bytes]] = []
        self.before_assigned: Callable[[], None] = lambda: None
        self.moves = Moves(
            self.logs,
            self.hosted.manager,
            self.cleaner,
            self.disk,
            self.checkpoints,
            self.pools,
            self.clock.monotonic_ns,
            config,
            self._assign,
        )

    async def _assign(self, directories: Mapping[TopicPartition, bytes]) -> None:
        await asyncio.sleep(0)
        self.before_assigned()
        self.assigned += directories.items()

    def create(self, topic: str, path: Path, *, batches: int = 10, config: LogConfig | None = None) -> Partition:
        """Create a topic with one partition in a directory and fill it."""
        self.logs.prefer(TopicPartition(topic, 0), str(path))
        partition = self.hosted.create(topic, config=config)
        for _ in range(batches):
            self.append(partition)
        return partition

    def append(self, partition: Partition, value: bytes = b"v" * 100) -> int:
        """Append a batch; return its offset."""
        return partition.append(build_batch([(b"k", value)], timestamp=NOW_MS)).base_offset

    def move_of(self, partition: Partition) -> Move:
        """Return the move of a partition."""
        [move] = [move for move in self.moves.running() if move.tp == partition.tp]
        return move

    async def until(self, condition: Callable[[], Any], turns: int = 2_000) -> None:
        """Give everything its turn until a condition holds."""
        for _ in range(turns):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it does not come about")

    async def turns(self, count: int = 50) -> None:
        """Let everything that can go on do so."""
        for _ in range(count):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop the moves and let everything go."""
        self.pools.held = lambda pool: False
        self.pools.let_through(len(self.pools.waiting))
        await self.moves.close()
        await self.disk.close()
        self.logs.close(clean=False)

    def dir_of(self, partition: Partition) -> str:
        """Return the name of the directory that a partition is served from."""
        log_dir = self.logs.dir_of(partition.tp)
        assert log_dir is not None and partition.log is self.logs.logs[partition.tp]
        assert partition.log.path == f"{log_dir.path}/{partition.tp}"
        return Path(log_dir.path).name

    def fail(self, path: Path) -> None:
        """Let a directory fail."""
        self.hosted.manager.fail_dir_of(StorageFailure("as if the disk were broken", str(path)))
        self.moves.look()


def content(partition: Partition) -> bytes:
    """Return all bytes that consumers can read."""
    return read_all(partition.log)


def folders(path: Path) -> list[str]:
    """Name the folders of partitions, without what makes them unique."""
    names = [name for name in os.listdir(path) if os.path.isdir(path / name)]
    return sorted(name.split(".")[0] + name[name.rindex("-") :] * ("." in name) for name in names)


def paused(bed: MoveBed, topic: str) -> int:
    """Return how many pauses of the cleaner hold a partition."""
    return bed.cleaner._paused[TopicPartition(topic, 0)]
