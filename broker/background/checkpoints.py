"""Checkpoints and flushes: what makes a restart short and a deletion final.

Order within one round, for each directory: data are flushed before the recovery point that covers them is written;
otherwise a crash of the machine would make recovery skip what never reached the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.background.flushes import Flushes
from broker.partition.manager import PartitionManager
from broker.runtime.coalesced import Coalesced
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from config.views import LONG_MAX, LogManagerConfig
from storage.dirs.manager import LogManager
from storage.env.clock import Clock, monotonic_ms
from storage.errors import StorageFailure

logger = logging.getLogger(__name__)

CHECKPOINT_POOL = "checkpoints"

CATCH_UP_INTERVAL_MS = 1_000
"""How soon a flushed segment, a copy or a move is noted."""

PURGE_INTERVAL_MS = 1_000
"""How often removed files are looked for whose delay has passed."""


class Checkpoints:
    """Schedules what storage decides."""

    def __init__(
        self,
        logs: LogManager,
        partitions: PartitionManager,
        flushes: Flushes,
        pools: Pools,
        clock: Clock,
        config: LogManagerConfig,
    ) -> None:
        self._logs = logs
        self._partitions = partitions
        self._pools = pools
        self._clock = clock
        self._config = config
        self._flushes = flushes
        self.save_log_starts = Coalesced(self._save_log_starts)
        self.high_watermarks = Coalesced(self._write_high_watermarks)
        self._save_recovery_points = Coalesced(self._write_recovery_points)
        self.purge = Coalesced(self._purge)
        # Since they were last written; set by note_flushed and note_moved.
        self._has_flushed_copies = False
        self._has_moved_logs = False

    def start(self, scheduler: Scheduler) -> None:
        """Begin the periodic work."""
        if not all(log_dir.was_clean or log_dir.is_new for log_dir in self._logs.dirs):
            self.note_moved()  # a crash between a move and these files has left lines of logs that are gone
        config = self._config
        delay = config.initial_task_delay_ms
        scheduler.every("recovery-points", config.flush_offset_checkpoint_interval_ms, self.flush, first_delay_ms=delay)
        scheduler.every("recovery-points-after-rolls", CATCH_UP_INTERVAL_MS, self.catch_up)
        if 0 < config.flush_scheduler_interval_ms < LONG_MAX:
            scheduler.every("flush.ms", config.flush_scheduler_interval_ms, self.flush_due)
        scheduler.every("high-watermarks", config.high_watermark_checkpoint_interval_ms, self.high_watermarks)
        if config.flush_start_offset_checkpoint_interval_ms:
            scheduler.every(
                "log-starts",
                config.flush_start_offset_checkpoint_interval_ms,
                self.save_log_starts,
                first_delay_ms=delay,
            )
        scheduler.every("purge", PURGE_INTERVAL_MS, self.purge)
        scheduler.every("producers", config.producer_id_expiration_check_interval_ms, self.expire_producers)

    async def flush(self) -> None:
        """Make every log durable, then write how far."""
        for partition in tuple(self._partitions):
            if partition.log.durability.has_unflushed_data and not partition.log.is_closed:
                await self._flushes.flush(partition)
        await self._save_recovery_points()

    async def catch_up(self) -> None:
        """Write what has changed much: a restart need not look at segments that were flushed once sealed, or copied.

        Logs that come together share one write, which with many thousands of them takes its time.
        """
        had_sealed = self._flushes.take_sealed()
        had_copies, self._has_flushed_copies = self._has_flushed_copies, False
        had_moved, self._has_moved_logs = self._has_moved_logs, False
        if had_moved:
            await self.rewrite()
        elif had_sealed or had_copies:
            await self._save_recovery_points()

    def note_flushed(self) -> None:
        """Let the recovery point of a copy be written soon, with those of logs whose segments were flushed."""
        self._has_flushed_copies = True

    def note_moved(self) -> None:
        """Let the files of all directories be written soon: a log has left one of them for another."""
        self._has_moved_logs = True

    async def _write_recovery_points(self) -> None:
        await self._write(self._logs.checkpoint_recovery_points)

    def flush_due(self) -> None:
        """Flush what flush.ms asks for."""
        self._flushes.flush_due(tuple(self._partitions))

    async def rewrite(self) -> None:
        """Write all that has changed: logs that have left a directory leave its files, those that came get a line."""
        await self._save_recovery_points()
        await self.save_log_starts()
        await self.high_watermarks()

    async def _write_high_watermarks(self) -> None:
        await self._write(self._logs.checkpoint_high_watermarks)

    async def _save_log_starts(self) -> None:
        """Write the log starts that segment names do not tell, in every directory that takes it.

        When it returns, each start that was set before is durable or its directory is offline.
        """
        for _ in self._logs.dirs:
            if await self._write(self._logs.checkpoint_log_starts):
                return  # else the failure has taken a directory offline; the others are written again

    async def after_maintenance(self) -> None:
        """Do what falls due with a retention pass: unlink what has no delay, write the log starts if told so."""
        await self.purge()
        if not self._config.flush_start_offset_checkpoint_interval_ms:
            await self.save_log_starts()

    async def _purge(self) -> None:
        """Make deletions durable, and unlink the files of deleted logs and removed segments whose delay has passed.

        One at a time: the next one begins with what this one has left.
        """
        due_ms = self._logs.deleted_logs.next_purge_ms()
        now_ms = monotonic_ms(self._clock)
        if due_ms is not None and due_ms <= now_ms:
            await self._write(lambda: self._logs.deleted_logs.purge(now_ms))
        for log_dir, unlink in self._logs.take_due_deletions(now_ms):
            await self._write(unlink, pool=log_dir.path)

    def expire_producers(self) -> None:
        """Forget producers that were idle for too long."""
        now_ms = self._clock.now_ms()
        for partition in self._partitions:
            partition.log.expire_producers(now_ms)

    async def _write(self, call: Callable[[], object], *, pool: str = CHECKPOINT_POOL) -> bool:
        """Run a write of storage's and tell whether it went well.

        A directory that fails it is given up here, on the thread that owns the logs.
        """
        try:
            await self._pools.io(pool, call)
        except StorageFailure as failure:
            self._partitions.fail_dir_of(failure)
            return False
        return True
