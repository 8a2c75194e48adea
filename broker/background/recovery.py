"""Loading all logs at the start and closing them at the end, in threads; and saying how far it has come.

`num.recovery.threads.per.data.dir` threads work on each directory, all directories at once; closing, which does nothing
but wait for the disk, takes more. Storage cuts the work into pieces and takes the results back; here is only who runs
them. A dynamic change of the number is in force the next time that logs are loaded or closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from storage.dirs.loading import DirLoading
from storage.dirs.manager import ConfigFor, LogManager

PROGRESS_EVERY_MS = 5_000
CLOSING_POOL = "closing"
CLOSING_THREADS = 8
"""So many at least close the logs of a directory: they wait for the disk, and a file system makes syncs that come at
once durable together. Thousands of partitions close several times as fast as with two."""

logger = logging.getLogger(__name__)


class Recovery:
    """Runs what storage.dirs.loading and storage.dirs.closing describe."""

    def __init__(
        self,
        logs: LogManager,
        pools: Pools,
        scheduler: Scheduler,
        thread_count: int,
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._logs = logs
        self._pools = pools
        self._scheduler = scheduler
        self.thread_count = thread_count  # a directory; replaced by a change of the setting
        self._monotonic_ns = monotonic_ns
        self._started_ns = 0  # set by load
        self._ended_ns = 0  # set by load, 0 until then
        self._timer: asyncio.TimerHandle | None = None  # of the next report, while loading

    @property
    def seconds(self) -> float:
        """Return how long loading has taken, so far or in all; 0 before it began."""
        end_ns = self._ended_ns or (self._monotonic_ns() if self._started_ns else 0)
        return (end_ns - self._started_ns) / 1e9

    @property
    def directories(self) -> Sequence[DirLoading]:
        """Return how each directory is or was loaded at this start."""
        return self._logs.loading

    def where(self) -> str:
        """Say in one line how far loading has come."""
        return "; ".join(_progress_of(one, self.seconds) for one in self.directories if one.logs_left)

    async def load(self, config_for: ConfigFor) -> None:
        """Load the logs of all directories. Raises: what LogManager.load_all does."""
        self._started_ns = self._monotonic_ns()
        loading = self._logs.begin_loading(config_for)
        await asyncio.gather(*(self._pools.io(one.log_dir.path, one.prepare) for one in loading))
        self._logs.ensure_unique()
        await asyncio.gather(*(self._pools.io(one.log_dir.path, one.begin) for one in loading))
        self._timer = self._scheduler.call_later(PROGRESS_EVERY_MS, self._report)
        try:
            await asyncio.gather(*map(self._load_dir, loading))
        finally:
            self._timer.cancel()
            self._ended_ns = self._monotonic_ns()
        self._logs.finish_loading()

    async def _load_dir(self, loading: DirLoading) -> None:
        workers = [loading.add_worker() for _ in range(self.thread_count)]
        path = loading.log_dir.path
        await self._pools.together(path, [partial(loading.work, one) for one in workers[: loading.log_count]])
        if loading.log_count and not loading.is_stopped:
            logger.info(
                "logs loaded dir=%s count=%d clean=%s scanned_bytes=%d cut_bytes=%d took_s=%.3f",
                *(path, loading.log_count, loading.is_clean),
                *(loading.scanned_bytes, loading.cut_bytes, self.seconds),
            )

    def _report(self) -> None:
        for one in self.directories:
            if one.logs_left:
                logger.info("loading logs %s", _progress_of(one, self.seconds))
        self._timer = self._scheduler.call_later(PROGRESS_EVERY_MS, self._report)

    async def close(self) -> None:
        """Close every log that is open, then leave checkpoints and markers. Never raises for a failed directory."""
        closing = self._logs.begin_closing()
        count = max(self.thread_count, CLOSING_THREADS)
        await asyncio.gather(
            *(self._pools.together(one.log_dir.path, [one.work] * min(count, one.log_count)) for one in closing)
        )
        await self._pools.io(CLOSING_POOL, partial(self._logs.finish_closing, closing))


def _progress_of(loading: DirLoading, seconds: float) -> str:
    scanned, total = loading.scanned_bytes, loading.bytes_to_scan
    text = f"dir={loading.log_dir.path} left={loading.logs_left} of={loading.log_count}"
    if total:
        done = scanned / total
        text += f" scanned_bytes={scanned} of_bytes={total} rate_bytes_per_s={int(scanned / max(seconds, 1e-3))}"
    else:
        done = 1 - loading.logs_left / loading.log_count
    return text + (f" estimate_s={int(seconds * (1 / done - 1))}" if 0 < done < 1 else "")
