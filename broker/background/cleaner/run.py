"""The cleaner: finds the logs that need compaction, the dirtiest first, and has child processes rewrite them.

A pass is planned on the loop (storage.compaction.plan), run in a child process that only reads segments and writes
`.cleaned` files, and applied on the loop again, which looks first whether the log still is what the pass began with.
There is one pass a log and `log.cleaner.threads` passes at once. When nothing needs cleaning the processes end and the
logs are looked at again after `log.cleaner.backoff.ms`; else the next look follows the end of a pass.

Whoever truncates, moves or gives up a log pauses it first: `pause` returns when no pass touches the log any more.
Source: Kafka's LogCleaner and LogCleanerManager.
"""

from __future__ import annotations

import asyncio
import logging
import os.path
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from broker.background.checkpoints import CHECKPOINT_POOL
from broker.background.cleaner.child import Child, ChildDied, CleaningFailed
from broker.background.cleaner.passes import CleaningPass
from broker.background.cleaner.pipe import Clean, Fault
from broker.background.cleaner.stats import CleanerStats
from broker.background.cleaner.trouble import Troubles
from broker.metadata.image import ClusterImage, Delta
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.runtime.coalesced import Coalesced
from broker.runtime.failures import unexplained
from broker.runtime.pools import Pools
from broker.runtime.tasks import TaskOwner
from config.views import CleanerConfig
from storage.compaction.plan import Dirtiness, is_cleanable
from storage.compaction.task import CleanedGroup, CleaningResult, Progress
from storage.dirs.manager import LogManager
from storage.env.clock import Clock, Rng
from storage.errors import StorageError, StorageFailure
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition

logger = logging.getLogger(__name__)

SHORTEST_PAUSE_MS = 100
"""Between two looks that find nothing, whatever the backoff is."""
HAS_CHANGED = "the log has changed"
LOOKS_PER_TURN = 50
"""Logs that are looked at before the loop gets its turn: about a millisecond."""

StartChild = Callable[[], Awaitable[Child]]
AfterPass = Callable[[Partition], Awaitable[object]]


class Candidate(NamedTuple):
    """A log that needs cleaning."""

    log: PartitionLog
    found: Dirtiness


class Cleaner:
    """Schedules passes; everything here happens on the loop."""

    def __init__(
        self,
        logs: LogManager,
        partitions: PartitionManager,
        pools: Pools,
        clock: Clock,
        rng: Rng,
        config: Callable[[], CleanerConfig],
        start_child: StartChild,
        after_pass: AfterPass,
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._pools = pools
        self._clock = clock
        self._config = config
        self._start_child = start_child
        self._after_pass = after_pass
        self._tasks = TaskOwner("cleaner")
        self._wake = asyncio.Event()
        self.write_checkpoints = Coalesced(self._write_checkpoints)
        self.stats = CleanerStats(clock.monotonic_ns())
        self.troubles = Troubles(rng)
        self._passes: dict[TopicPartition, CleaningPass] = {}
        self._paused: Counter[TopicPartition] = Counter()
        self._idle: list[Child] = []  # processes without a pass; ended when there is nothing to clean
        self._waiting: dict[TopicPartition, int] = {}  # candidates without a pass → since when, as of the last look
        self._is_closing = False
        self.is_failing = False  # the last look ended with an error of ours

    # --- what others see and say ---

    @property
    def running_count(self) -> int:
        """Passes under way."""
        return len(self._passes)

    def running(self) -> list[CleaningPass]:
        """List the passes under way."""
        return list(self._passes.values())

    @property
    def waiting_count(self) -> int:
        """Logs that need cleaning and had no turn at the last look."""
        return len(self._waiting)

    @property
    def oldest_waiting_seconds(self) -> float:
        """How long the first of them waits."""
        since = min(self._waiting.values(), default=None)
        return 0.0 if since is None else (self._clock.monotonic_ns() - since) / 1e9

    @property
    def since_last_look_ms(self) -> int:
        """Time since the logs were last looked at."""
        return (self._clock.monotonic_ns() - self.stats.last_look_ns) // 1_000_000

    def uncleanable_by_dir(self) -> dict[str, list[PartitionLog]]:
        """List the logs that are left alone under the path of each directory."""
        logs: dict[str, list[PartitionLog]] = {log_dir.path: [] for log_dir in self._logs.dirs}
        for one in self.troubles.uncleanable:
            logs.setdefault(os.path.dirname(one.log.path), []).append(one.log)
        return logs

    def is_busy(self, tp: TopicPartition) -> bool:
        """Tell whether a pass works on a log."""
        return tp in self._passes

    def abort(self, tp: TopicPartition, reason: str) -> None:
        """Stop the pass on a log, if there is one; `pause` also waits until it has ended."""
        running = self._passes.get(tp)
        if running is not None:
            running.abort(reason)

    async def pause(self, tp: TopicPartition) -> None:
        """Let no pass touch a log until as many calls of `resume`; the running one has ended on return."""
        self._paused[tp] += 1
        self.abort(tp, "the log is paused")
        running = self._passes.get(tp)
        if running is not None:
            await running.ended.wait()

    def resume(self, tp: TopicPartition) -> None:
        """Take back one pause."""
        assert self._paused[tp] > 0, tp
        self._paused[tp] -= 1
        if not self._paused[tp]:
            del self._paused[tp]
            partition = self._partitions.find(tp)
            if partition is not None and partition.log.config.is_compact:
                self._wake.set()

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow the metadata, behind the partition manager: stop what was deleted or is no longer to be compacted."""
        if delta.deleted_topics or delta.changed_configs:
            self._stop_outdated()
            self.troubles.forget_all_but(self._logs.logs.values())
            self._wake.set()
        if delta.deleted_topics and not self._is_closing:
            self._tasks.spawn("checkpoint", self.write_checkpoints())

    def _stop_outdated(self) -> None:
        for running in self._passes.values():
            if running.outdated_reason:
                running.abort(running.outdated_reason)

    # --- life ---

    def start(self) -> None:
        """Begin to look, after one pause: nothing competes with a start."""
        self._tasks.spawn("look", self._run())

    async def close(self) -> None:
        """Stop the passes, wait until nothing of them touches a log, end the processes."""
        self._is_closing = True
        for running in tuple(self._passes.values()):
            running.abort("the broker stops")
        for running in tuple(self._passes.values()):
            await running.ended.wait()
        await self._tasks.close()
        await self._end_idle()

    async def _run(self) -> None:
        while not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pause_ms / 1000):
                    await self._wake.wait()
            self._wake.clear()
            await self.look_safely()

    async def look_safely(self) -> None:
        """Look, and survive an error of ours: the next look may do better."""
        try:
            await self.look()
            self.is_failing = False
        except Exception as failure:  # a background job's border
            self.is_failing = True
            logger.error("looking for logs to clean failed reason=%s", failure, exc_info=unexplained(failure))

    @property
    def pause_ms(self) -> int:
        """How long nothing is looked for after a look: the backoff, or less when a failed log is to be tried again."""
        pause_ms = self._config().backoff_ms
        retry_ms = self.troubles.next_retry_ms()
        if retry_ms is not None:
            pause_ms = min(pause_ms, retry_ms - self._now_ms())
        return max(pause_ms, SHORTEST_PAUSE_MS)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000

    # --- plan ---

    async def look(self) -> None:
        """Find the logs that need cleaning and begin passes on the dirtiest, as many as there may be at once."""
        candidates = await self._candidates()
        config = self._config()
        now_ns = self._clock.monotonic_ns()
        waiting: dict[TopicPartition, int] = {}
        for log, found in candidates:
            if len(self._passes) >= config.threads or self._is_closing:
                waiting[log.tp] = self._waiting.get(log.tp, now_ns)
            elif not log.is_closed and log.tp not in self._passes and log.tp not in self._paused:
                self._begin(log, found, config)
        self._waiting = waiting
        self._share_rate()
        if not self._passes:
            await self._end_idle()

    async def _candidates(self) -> list[Candidate]:
        """Measure every compacted log; give those to be cleaned, the dirtiest first."""
        stats = self.stats
        stats.last_look_ns = self._clock.monotonic_ns()
        now_ms = self._clock.now_ms()
        max_ratio, max_delay_ms = 0.0, 0
        candidates = []
        has_reset = False
        for number, partition in enumerate(tuple(self._partitions), 1):
            if not number % LOOKS_PER_TURN:
                await asyncio.sleep(0)
            log = partition.log
            if not log.config.is_compact or log.is_closed or self._is_left_alone(log):
                continue
            found = self._measure(log, now_ms)
            if found is None:
                continue
            if found.checkpoint_is_reset:
                self._logs.set_cleaner_checkpoint(log.tp, found.first_dirty_offset)
                has_reset = True
            max_ratio = max(max_ratio, found.ratio)
            if is_cleanable(found, log.config):
                max_delay_ms = max(max_delay_ms, found.overdue_ms)
                candidates.append(Candidate(log, found))
        stats.max_dirty_ratio, stats.max_compaction_delay_ms = max_ratio, max_delay_ms
        if has_reset:
            await self.write_checkpoints()
        candidates.sort(key=lambda one: one.found.ratio, reverse=True)
        return candidates

    def _is_left_alone(self, log: PartitionLog) -> bool:
        return log.tp in self._passes or log.tp in self._paused or self.troubles.keeps_from(log, self._now_ms())

    def _measure(self, log: PartitionLog, now_ms: int) -> Dirtiness | None:
        try:
            return log.cleaning.dirtiness(self._logs.cleaner_checkpoint(log.tp), now_ms)
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)
        except StorageError as failure:
            self._mark_uncleanable(log, str(failure), "")
        return None

    def _begin(self, log: PartitionLog, found: Dirtiness, config: CleanerConfig) -> None:
        task = log.cleaning.task(found, now_ms=self._clock.now_ms(), cleaner=config)
        if task is None:
            return
        running = CleaningPass(log, task, found, self._clock.monotonic_ns())
        self._passes[log.tp] = running
        running.say_started()
        self._tasks.spawn(f"clean {log.tp}", self._carry_out(running))

    def _share_rate(self) -> None:
        """Give each running pass its share of what all may read and write together."""
        share = self._rate_share()
        for running in self._passes.values():
            if running.child is not None:
                running.child.set_rate(share)

    def _rate_share(self) -> float:
        return self._config().io_max_bytes_per_second / max(len(self._passes), 1)

    # --- run ---

    async def _carry_out(self, running: CleaningPass) -> None:
        """Run a pass to its end, which nobody cuts short: `close` waits for it."""
        partition = self._partitions.find(running.tp)
        is_done = False
        try:
            is_done = await self._clean(running)
        except (ChildDied, CleaningFailed, StorageFailure, OSError) as failure:
            await self._give_up(running, failure)
        except Exception:  # a background job's border
            logger.exception("cleaning failed topic=%s partition=%d", *running.tp)
            await self._give_up(running, ChildDied("an error of the broker"))
        finally:
            del self._passes[running.tp]
            running.ended.set()
            self._share_rate()
            self._wake.set()
        if is_done and partition is not None and not self._is_closing:
            await self._after_pass(partition)

    async def _clean(self, running: CleaningPass) -> bool:
        """Have the log rewritten and install the output; tell whether the pass was completed."""
        child = running.child = await self._take_child()
        if running.abort_reason:
            child.kill()
        try:
            result = await child.clean(Clean(running.task, self._rate_share()), partial(self._step, running))
        finally:
            running.child = None
            await self._give_back(child)
            if running.installer is not None:
                await running.installer
        if running.failure is not None:
            raise running.failure
        if running.abort_reason:
            await self._discard(running, running.abort_reason)
            return False
        assert len(running.installed) == len(result.groups), (running.installed, result.groups)
        await self._note_clean(running, result)
        return True

    async def _take_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
            await child.ended()
        return await self._start_child()

    async def _give_back(self, child: Child) -> None:
        if child.is_alive:
            self._idle.append(child)
        else:
            await child.ended()

    async def _end_idle(self) -> None:
        """End the processes that have nothing to do; their memory goes with them."""
        while self._idle:
            child = self._idle.pop()
            child.kill()
            await child.ended()

    def _step(self, running: CleaningPass, progress: Progress) -> None:
        """Take note of a step; a pass whose log is gone or has another policy ends here."""
        if running.outdated_reason:
            running.abort(running.outdated_reason)
            return
        running.note_progress(progress, self._clock.monotonic_ns())
        if progress.finished is not None:
            running.finished.append(progress.finished)
            if running.installer is None or running.installer.done():
                running.installer = self._tasks.spawn(f"install {running.tp}", self._install_finished(running))

    # --- apply ---

    async def _install_finished(self, running: CleaningPass) -> None:
        """Install the groups that are finished, one after the other, while the child goes on with the next.

        So a large log never needs twice its room on the disk, and a pass that is stopped has not been for nothing.
        """
        try:
            while running.finished and not running.abort_reason:
                group = running.finished.popleft()
                if await self._install(running, group):
                    running.installed.append(group)
                else:
                    running.abort(HAS_CHANGED)
        except StorageFailure as failure:
            running.failure = failure
            running.abort("the output cannot be installed")

    async def _install(self, running: CleaningPass, group: CleanedGroup) -> bool:
        """Let one group take the place of its sources, in the steps of Swap; False when they are no longer there.

        A stop of the pass waits for the end of this, so that no step is missing.
        """
        log = running.log
        on_disk = partial(self._pools.io, os.path.dirname(log.path))
        swap = log.cleaning.begin_swap(group, running.task.cut_count)
        if swap is None:
            return False
        await on_disk(swap.stage)
        if log.is_closed or not swap.switch():
            await on_disk(swap.abandon)
            return False
        await on_disk(swap.retire)
        if log.is_closed:
            return False
        swap.settle()
        await on_disk(swap.sync)
        return True

    async def _note_clean(self, running: CleaningPass, result: CleaningResult) -> None:
        """Note how far the log is clean, now that the output is in its place for good.

        A crash before this only costs a pass over what is clean already.
        """
        assert result.end_offset > running.task.first_dirty_offset, result
        self._logs.set_cleaner_checkpoint(running.tp, result.end_offset)
        await self.write_checkpoints()
        self.troubles.succeeded(running.tp)
        stats = result.stats
        self.stats.count(
            running.say_done(result.end_offset, stats, self._clock.monotonic_ns()),
            stats.records_read - stats.records_written,
        )

    async def _write_checkpoints(self) -> None:
        """Write the checkpoint files that have changed."""
        try:
            await self._pools.io(CHECKPOINT_POOL, self._logs.checkpoint_cleaner_offsets)
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)

    # --- when it does not go well ---

    async def _give_up(
        self, running: CleaningPass, failure: ChildDied | CleaningFailed | StorageFailure | OSError
    ) -> None:
        """Decide what a pass that did not come to its end means for its log."""
        reason = running.outdated_reason or (running.abort_reason if running.failure is None else "")
        if not reason and running.failure is None and running.has_changed:
            reason = HAS_CHANGED
        if reason:
            await self._discard(running, reason)
            return
        self.stats.failures += 1
        await self._remove_output(running)
        fault = failure.fault if isinstance(failure, CleaningFailed) else Fault.OTHER
        if isinstance(failure, StorageFailure):
            self._partitions.fail_dir_of(failure)
        elif fault is Fault.DISK:
            self._partitions.fail_dir_of(StorageFailure(f"cannot clean {running.tp}: {failure}", running.log.path))
        elif fault is Fault.DATA:
            self._mark_uncleanable(running.log, str(failure), getattr(failure, "details", ""))
        else:
            wait_ms = self._delay(running.log)
            logger.warning("cleaning failed topic=%s partition=%d retry_ms=%d reason=%s", *running.tp, wait_ms, failure)

    def _mark_uncleanable(self, log: PartitionLog, reason: str, details: str) -> None:
        logger.error(
            "uncleanable until a restart or a change of its cleanup policy topic=%s partition=%d reason=%s%s",
            *log.tp,
            reason,
            f"\n{details}" if details else "",
        )
        self.troubles.mark_uncleanable(log, reason)

    def _delay(self, log: PartitionLog) -> int:
        return self.troubles.delay(log, self._now_ms(), self._config().backoff_ms)

    async def _discard(self, running: CleaningPass, reason: str) -> None:
        """End a pass whose log is not what it was, or that somebody stopped."""
        self.stats.aborted += 1
        logger.info("cleaning given up topic=%s partition=%d reason=%s", *running.tp, reason)
        await self._remove_output(running)
        if reason == HAS_CHANGED:  # at once it might change as often again
            self._delay(running.log)

    async def _remove_output(self, running: CleaningPass) -> None:
        """Remove what the pass has left; the files of a log that is gone go with its directory."""
        log = running.log
        if log.is_closed:
            return
        try:
            await self._pools.io(os.path.dirname(log.path), log.cleaning.remove_cleaned)
        except StorageFailure as failure:
            if not log.is_closed:
                self._partitions.fail_dir_of(failure)
