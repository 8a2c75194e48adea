"""One cleaning of one log, from the decision to its end: what it works on, how far it is, who stopped it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from broker.background.cleaner.child import Child
from broker.background.cleaner.stats import LastPass
from storage.compaction.plan import Dirtiness
from storage.compaction.task import CleanedGroup, CleaningStats, CleaningTask, Progress
from storage.errors import StorageFailure
from storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

PROGRESS_EVERY_NS = 10_000_000_000
MEBIBYTE = 1 << 20


class CleaningPass:
    """A pass that is under way."""

    def __init__(self, log: PartitionLog, task: CleaningTask, found: Dirtiness, now_ns: int) -> None:
        self.log = log
        self.tp = log.tp
        self.task = task
        self.found = found
        self.started_ns = now_ns
        self.progress: Progress | None = None  # as the child told last
        self.child: Child | None = None  # set while one works on it
        self.abort_reason = ""  # set once, by whoever stops it
        self.finished: deque[CleanedGroup] = deque()  # reported by the child, not yet installed
        self.installed: list[CleanedGroup] = []
        self.installer: asyncio.Task[None] | None = None  # set with the first finished group
        self.failure: StorageFailure | None = None  # of an installation
        self.ended = asyncio.Event()  # set last: nothing of the pass touches the log any more
        self._said_ns = now_ns

    def abort(self, reason: str) -> None:
        """Stop it: the child is killed, and what it has written is removed before `ended` is set."""
        if not self.abort_reason:
            self.abort_reason = reason
            if self.child is not None:
                self.child.kill()

    @property
    def outdated_reason(self) -> str:
        """Why its log is not to be cleaned any more; empty while it is."""
        if self.log.is_closed:
            return "the log is gone"
        return "" if self.log.config.is_compact else "the policy is no longer compact"

    @property
    def has_changed(self) -> bool:
        """Tell whether the log has lost sources in another way than through this pass: then they could not be read."""
        replaced = {source for group in self.installed for source in group.sources}
        left = tuple(source for source in self.task.sources if source not in replaced)
        return self.log.cleaning.begin_swap(CleanedGroup(left, ()), self.task.cut_count) is None

    def say_started(self) -> None:
        """Log what is about to be done."""
        logger.info(
            "cleaning started topic=%s partition=%d first_dirty_offset=%d end_offset=%d clean_bytes=%d "
            "dirty_bytes=%d ratio=%.3f forced=%s",
            *self.tp,
            self.found.first_dirty_offset,
            self.found.first_uncleanable_offset,
            self.found.clean_bytes,
            self.found.cleanable_bytes,
            self.found.ratio,
            self.found.is_forced,
        )

    @property
    def read_bytes(self) -> int:
        """How much of the log has been read, once for the map and once for copying."""
        return 0 if self.progress is None else self.progress.bytes_read

    @property
    def left_bytes(self) -> int:
        """How much is still to be read, as far as that is known."""
        progress = self.progress
        return 0 if progress is None else max(progress.bytes_to_read - progress.bytes_read, 0)

    def note_progress(self, progress: Progress, now_ns: int) -> None:
        """Take note of how far it is, and log it every ten seconds."""
        self.progress = progress
        if now_ns - self._said_ns < PROGRESS_EVERY_NS:
            return
        self._said_ns = now_ns
        rate = progress.bytes_read * 1e9 / max(now_ns - self.started_ns, 1)
        left = self.left_bytes
        logger.info(
            "cleaning topic=%s partition=%d read_bytes=%d of=%d written_bytes=%d mib_per_s=%.1f left_s=%s",
            *self.tp,
            progress.bytes_read,
            progress.bytes_to_read,
            progress.bytes_written,
            rate / MEBIBYTE,
            f"{left / rate:.0f}" if rate else "unknown",
        )

    def say_done(self, end_offset: int, stats: CleaningStats, now_ns: int) -> LastPass:
        """Log the summary and return the numbers that are counted."""
        seconds = (now_ns - self.started_ns) / 1e9
        read_bytes = stats.map_bytes_read + stats.bytes_read
        logger.info(
            "cleaning done topic=%s partition=%d end_offset=%d read_bytes=%d written_bytes=%d removed_records=%d "
            "keyless_records=%d keys=%d seconds=%.3f mib_per_s=%.1f",
            *self.tp,
            end_offset,
            read_bytes,
            stats.bytes_written,
            stats.records_read - stats.records_written,
            stats.invalid_records,
            stats.map_entries,
            seconds,
            read_bytes / MEBIBYTE / max(seconds, 1e-9),
        )
        return LastPass(
            read_bytes=read_bytes,
            copy_read_bytes=stats.bytes_read,
            written_bytes=stats.bytes_written,
            seconds=seconds,
            map_utilization=stats.map_entries / max(stats.map_slots, 1),
        )
