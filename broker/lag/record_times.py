"""When the records at some offsets were appended: what is known of it, and lookups for what is not.

Whoever asks goes through all partitions and offsets of interest between `begin` and `end`; what was not asked for then
is forgotten. An answer is looked up once for an offset and kept as long as it is asked for. Lookups run in the I/O pool
of the log's directory, a chunk of them at a time, and rest in between: they may take their time, since what was seen of
the partitions' ends (marks) already gives an answer for most offsets.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Awaitable, Callable
from functools import partial

from broker.lag.marks import Marks
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from storage.errors import CorruptRecord, LogClosed, StorageFailure
from storage.log.append_times import NO_TIME, AppendTimes

CHUNK_OFFSETS = 128
"""Looked up in one go: some milliseconds of a thread if nothing has to be read from the disk."""
REST_FACTOR = 4
"""Between two chunks lookups rest for so many times as long as the last one took."""

PARTITIONS_A_STEP = 256
"""Looked at before it is asked whether it is time to let others run: a third of a millisecond."""

UNKNOWABLE = NO_TIME


class PartitionTimes:
    """What is known of one partition's records."""

    __slots__ = ("earlier", "known", "marks", "partition", "used", "wanted")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.marks: Marks | None = None  # from the first `follow` on
        self.known: dict[int, int | None] = {}  # by offset; None where there is no record, UNKNOWABLE where no time
        self.earlier: dict[int, int | None] = {}  # what was known before that; a group that has moved on was there
        self.used: dict[int, int | None] = {}  # what of it was asked for since the last `begin`
        self.wanted: set[int] | None = None  # what is to be looked up, if anything is

    def follow(self, end: int, now_ms: int) -> None:
        """Take note of where the partition ends."""
        if self.marks is None:
            self.marks = Marks()
        self.marks.note(end, now_ms)

    def ask(self, offset: int) -> None:
        """Have the time of the record at an offset looked up, unless it is known."""
        if offset in self.used:
            return
        if offset in self.known:
            self.used[offset] = self.known[offset]
        elif self.wanted is None:
            self.wanted = {offset}
        else:
            self.wanted.add(offset)

    def take_wanted(self) -> list[int]:
        """Forget what was not asked for; return what is to be looked up."""
        wanted, self.wanted = self.wanted, None
        self.earlier = self.known
        if wanted is None and len(self.used) == len(self.known):
            self.used = self.known  # one mapping for both, for as long as nothing changes
        else:
            self.known = self.used
        return sorted(wanted) if wanted else []

    def stamp(self, offset: int) -> int | None:
        """Return the time that the record at an offset bears, None while or where that is not known."""
        found = self.known.get(offset)
        return None if found == UNKNOWABLE else found

    def appended_ms(self, offset: int) -> int | None:
        """Return when the record at an offset became readable, as far as its stamp and the marks tell.

        A record without a stamp that was there before anybody looked counts from that look.
        """
        stamp = self.stamp(offset)
        after_ms, before_ms = (None, None) if self.marks is None else self.marks.bounds(offset)
        if stamp is None:
            if after_ms is not None and before_ms is not None:
                return (after_ms + before_ms) // 2
            stamp = before_ms if offset in self.known else self._earlier_stamp(offset)
            if stamp is None:
                return None
        if before_ms is not None and stamp > before_ms:
            return before_ms
        return max(stamp, after_ms) if after_ms is not None else stamp

    def _earlier_stamp(self, offset: int) -> int | None:
        """Return the stamp of the last record before an offset that has one: the record there is not older."""
        stamps = {at: stamp for at, stamp in self.earlier.items() if at <= offset and stamp not in (None, UNKNOWABLE)}
        return stamps[max(stamps)] if stamps else None


class RecordTimes:
    """What is known of all partitions that somebody asks about."""

    def __init__(
        self, pools: Pools, monotonic_ns: Callable[[], int], on_failure: Callable[[StorageFailure], None]
    ) -> None:
        self._pools = pools
        self._monotonic_ns = monotonic_ns
        self._on_failure = on_failure
        self._tasks = TaskOwner("record-times")
        self._before: dict[Partition, PartitionTimes] = {}
        self._now: dict[Partition, PartitionTimes] = {}
        self._queue: list[tuple[PartitionTimes, list[int]]] = []  # what is not looked up yet
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def begin(self) -> None:
        """Begin to ask: what is asked for until `end` is what is kept."""
        self._before, self._now = self._now, {}

    def of(self, partition: Partition) -> PartitionTimes:
        """Give what is known of a partition, between `begin` and `end`."""
        found = self._now.get(partition)
        if found is None:
            found = self._before.get(partition) or PartitionTimes(partition)
            found.used = {}
            self._now[partition] = found
        return found

    async def end(self, pause: Callable[[], Awaitable[None]]) -> None:
        """Forget what was not asked for, and look up what is not known."""
        self._before = {}
        queue = []
        for number, times in enumerate(self._now.values()):
            if number % PARTITIONS_A_STEP == 0:
                await pause()
            wanted = times.take_wanted()
            if wanted:
                queue.append((times, wanted))
        self._queue = queue
        if self._queue and self._is_idle.is_set():
            self._is_idle.clear()
            self._tasks.spawn("look-up", self._look_up())

    async def settle(self, limit_seconds: float) -> None:
        """Wait until all that was asked for is known, but not longer than so."""
        try:
            await asyncio.wait_for(self._is_idle.wait(), limit_seconds)
        except TimeoutError:
            return

    async def close(self) -> None:
        """Look nothing up any more."""
        await self._tasks.close()

    async def _look_up(self) -> None:
        try:
            while self._queue:
                started_ns = self._monotonic_ns()
                await self._look_up_chunk(*self._next_chunk())
                if self._queue:
                    await asyncio.sleep(REST_FACTOR * (self._monotonic_ns() - started_ns) / 1e9)
        finally:
            self._is_idle.set()

    def _next_chunk(self) -> tuple[str, list[tuple[PartitionTimes, AppendTimes, list[int]]]]:
        """Plan lookups in logs of one directory."""
        directory, count = "", 0
        chunk: list[tuple[PartitionTimes, AppendTimes, list[int]]] = []
        while self._queue and count < CHUNK_OFFSETS:
            times, wanted = self._queue[-1]
            log = times.partition.log
            if chunk and os.path.dirname(log.path) != directory:
                break
            directory = os.path.dirname(log.path)
            offsets = wanted[-CHUNK_OFFSETS:]
            del wanted[-CHUNK_OFFSETS:]
            if not wanted:
                self._queue.pop()
            try:
                chunk.append((times, log.append_times(offsets), offsets))
            except LogClosed:
                continue
            except CorruptRecord:
                times.known.update(dict.fromkeys(offsets, UNKNOWABLE))
            except StorageFailure as failure:
                self._on_failure(failure)
            count += len(offsets)
        return directory, chunk

    async def _look_up_chunk(self, directory: str, chunk: list[tuple[PartitionTimes, AppendTimes, list[int]]]) -> None:
        if not chunk:
            return
        outcomes = await self._pools.io(directory, partial(_run, [plan for _, plan, _ in chunk]))
        for (times, plan, offsets), outcome in zip(chunk, outcomes, strict=True):
            if not times.partition.log.holds(plan):
                continue  # asked for again the next time
            if isinstance(outcome, StorageFailure):
                self._on_failure(outcome)
            elif isinstance(outcome, dict):
                times.known.update(outcome)
            elif isinstance(outcome, CorruptRecord):
                times.known.update(dict.fromkeys(offsets, UNKNOWABLE))


def _run(plans: list[AppendTimes]) -> list[dict[int, int | None] | Exception]:
    """Run plans; what one of them meets is its outcome. Blocking: disk; any thread."""
    outcomes: list[dict[int, int | None] | Exception] = []
    for plan in plans:
        try:
            outcomes.append(plan.run())
        except (LogClosed, StorageFailure, CorruptRecord) as failure:
            outcomes.append(failure)
    return outcomes
