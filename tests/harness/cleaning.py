"""A cleaner over real logs whose child processes are stand-ins: they rewrite here, when the test lets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker.background.cleaner.child import ChildDied, CleaningFailed
from broker.background.cleaner.pipe import Clean, Failed
from broker.background.cleaner.process import run_task
from broker.background.cleaner.run import Cleaner, StartChild
from broker.partition.partition import Partition
from config.views import CleanerConfig, LogConfig
from protocol.records.builder import build_batch
from protocol.records.record import Record
from storage.compaction.rewrite import rewrite
from storage.compaction.task import Progress
from storage.env.clock import SeededRng
from tests.harness.hosted import NOW_MS, Hosted
from tests.sim.cleaning import stored_records
from tests.sim.logs import read_all

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=0)


class InlinePools:
    """Runs what would wait for a disk at once, after telling the test that it is about to."""

    def __init__(self) -> None:
        self.before: Callable[[Any], None] = lambda call: None

    async def io(self, log_dir: str, call: Callable[[], Any]) -> Any:
        self.before(call)
        await asyncio.sleep(0)
        return call()


class StandIn:
    """A child process that is none."""

    def __init__(self, bed: CleanerBed) -> None:
        self.bed = bed
        self.is_alive = True
        self.order: Clean | None = None
        self.rates: list[float] = []
        self.report: Callable[[Progress], None] = lambda progress: None
        self.is_gone = False
        self._go: asyncio.Future[None] | None = None

    async def clean(self, order: Clean, report: Callable[[Progress], None]) -> Any:
        """Rewrite once the test says so, unless it says otherwise."""
        if not self.is_alive:
            raise ChildDied("killed")
        self.order, self.report = order, report
        self.rates = [order.bytes_per_second]
        self._go = asyncio.get_running_loop().create_future()
        if not self.bed.is_held:
            self._go.set_result(None)
        await self._go
        self.bed.passes.append(order.task.tp.topic)
        fs, clock = self.bed.hosted.fs, self.bed.hosted.clock
        outcome = run_task(lambda: rewrite(order.task, fs, clock, report=report))
        if isinstance(outcome, Failed):
            raise CleaningFailed(*outcome)
        return outcome.result

    def proceed(self, failure: Exception | None = None) -> None:
        """Let the held task be carried out, or fail."""
        assert self._go is not None
        if failure is None:
            self._go.set_result(None)
        else:
            self._go.set_exception(failure)

    def set_rate(self, bytes_per_second: float) -> None:
        self.rates.append(bytes_per_second)

    def kill(self) -> None:
        self.is_alive = False
        if self._go is not None and not self._go.done():
            self._go.set_exception(ChildDied("killed"))

    async def ended(self) -> None:
        assert not self.is_alive
        self.is_gone = True


class CleanerBed:
    """A cleaner, its logs and what happened to it."""

    def __init__(self, hosted: Hosted, start_child: StartChild | None = None) -> None:
        self.hosted = hosted
        self.pools: Any = InlinePools()
        self.config = CleanerConfig(dedupe_buffer_size=1 << 22, io_buffer_size=1 << 15)
        self.children: list[StandIn] = []
        self.is_held = False  # a task waits for `proceed`
        self.refusal: OSError | None = None  # no process can be started
        self.passes: list[str] = []  # topics, in the order in which they were rewritten
        self.after: list[tuple[str, bool]] = []  # topic and whether it was busy, after each complete pass
        self.cleaner = Cleaner(
            hosted.logs,
            hosted.manager,
            self.pools,
            hosted.clock,
            SeededRng(5),
            lambda: self.config,
            start_child or self._start,
            self._after_pass,
        )

    async def _start(self) -> StandIn:
        if self.refusal is not None:
            raise self.refusal
        child = StandIn(self)
        self.children.append(child)
        return child

    async def _after_pass(self, partition: Partition) -> None:
        self.after.append((partition.tp[0], self.cleaner.is_busy(partition.tp)))

    def create(self, topic: str, *, segments: int = 3, config: LogConfig = COMPACT, keys: int = 2) -> Partition:
        """Make a log of closed segments with a few keys, written again and again, and an active one."""
        partition = self.hosted.create(topic, config=config)
        for _ in range(segments):
            self.fill(partition, keys)
        return partition

    def fill(self, partition: Partition, keys: int = 2, rounds: int = 10) -> None:
        """Append a closed segment."""
        for number in range(rounds):
            records = [(b"%d" % key, b"%d" % number) for key in range(keys)]
            partition.append(build_batch(records, timestamp=NOW_MS))
        partition.log.roll()

    def tp(self, topic: str) -> Any:
        return self.hosted.manager.get(topic, 0).tp

    async def turns(self, count: int = 20) -> None:
        """Let everything that can go on do so."""
        for _ in range(count):
            await asyncio.sleep(0)

    async def look(self) -> None:
        """Look, and let what was begun come as far as it can."""
        await self.cleaner.look()
        await self.turns()

    async def finish(self) -> None:
        """Let every pass that is under way come to its end."""
        for child in self.children:
            if child._go is not None and not child._go.done():
                child.proceed()
        while self.cleaner.running_count:
            await self.turns(1)
        await self.turns()

    def records(self, topic: str) -> list[Record]:
        return stored_records(read_all(self.hosted.manager.get(topic, 0).log))

    def leftovers(self, topic: str) -> list[str]:
        """Names of files that a pass made and did not clear away."""
        names = self.hosted.path_of(topic).iterdir()
        return sorted(path.name for path in names if path.suffix in (".cleaned", ".swap"))
