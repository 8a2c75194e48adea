"""Move: one partition on its way to another log directory: what is copied, how far it is, who stopped it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from broker.partition.partition import Partition
from storage.dirs.futures import FutureLog
from storage.dirs.log_dir import LogDir

logger = logging.getLogger(__name__)

PROGRESS_EVERY_NS = 10_000_000_000
RATE_WINDOW_NS = 10_000_000_000
RATE_SAMPLES = 10
MEBIBYTE = 1 << 20


class Move:
    """A move that is under way; everything here happens on the loop."""

    def __init__(self, partition: Partition, source: LogDir, future: FutureLog, now_ns: int) -> None:
        self.partition = partition
        self.tp = partition.tp
        self.log = partition.log
        self.source = source
        self.future = future
        self.copy = partition.log.copy_into(future.log)
        self.was_begun = future.log.log_end_offset > future.log.log_start_offset  # by an earlier run of the broker
        self.started_ns = now_ns
        self.retry_at_ns = 0  # set after an error
        self.is_busy = False  # a worker is at it
        self.is_swapping = False  # the metadata are about to name the new directory: too late for a cancellation
        self.failure = ""  # of the last attempt
        self.failure_said_ns = 0
        self.end_reason = ""  # set once, when it is not to go on
        self.ended = asyncio.Event()  # set last: nothing of the move touches the copy any more
        self._said_ns = now_ns
        self._samples: deque[tuple[int, int]] = deque([(now_ns, 0)], maxlen=RATE_SAMPLES)  # (time, copied bytes)

    # --- what it is ---

    @property
    def is_gone(self) -> bool:
        """Tell whether there is nothing to move, or nowhere to move it."""
        return self.future.is_gone or self.log.is_closed or self.partition.log is not self.log

    @property
    def why_gone(self) -> str:
        """Say what has gone."""
        for log_dir in (self.source, self.destination):
            if not log_dir.is_online:
                return f"log directory {log_dir.path} is offline"
        return "the partition is gone"

    @property
    def is_done(self) -> bool:
        """Tell whether the copy has taken over."""
        return self.partition.log is self.future.log

    @property
    def is_stopped(self) -> bool:
        """Tell whether the move is not to go on."""
        return bool(self.end_reason) or self.is_gone

    @property
    def destination(self) -> LogDir:
        """The directory that the partition moves to."""
        return self.future.log_dir

    @property
    def done_bytes(self) -> int:
        """Bytes that the copy holds, those of an earlier run too."""
        return self.future.log.size_bytes

    @property
    def left_bytes(self) -> int:
        """Bytes that are still to be copied."""
        return self.copy.left_bytes

    @property
    def lag(self) -> int:
        """Offsets that the copy is behind."""
        return self.copy.lag

    def rate(self, now_ns: int) -> float:
        """Return the bytes a second of the last few seconds."""
        then_ns, copied = self._samples[0]
        return (self.copy.copied_bytes - copied) * 1e9 / max(now_ns - then_ns, 1)

    def left_seconds(self, now_ns: int) -> float | None:
        """Return how long it will take at this rate; None while it stands still."""
        rate = self.rate(now_ns)
        return self.left_bytes / rate if rate else None

    def note_progress(self, now_ns: int) -> None:
        """Take a sample for the rate, and log how far it is every ten seconds."""
        if now_ns - self._samples[-1][0] >= RATE_WINDOW_NS // RATE_SAMPLES:
            self._samples.append((now_ns, self.copy.copied_bytes))
        if now_ns - self._said_ns >= PROGRESS_EVERY_NS:
            self._said_ns = now_ns
            self._say_progress(now_ns)

    # --- what is said of it ---

    def say_started(self) -> None:
        """Log what is about to be done."""
        logger.info(
            "move started topic=%s partition=%d from=%s to=%s bytes=%d copied_before=%d",
            *self.tp,
            self.source.path,
            self.destination.path,
            self.log.size_bytes,
            self.future.log.size_bytes,
        )

    def _say_progress(self, now_ns: int) -> None:
        left_s = self.left_seconds(now_ns)
        logger.info(
            "moving topic=%s partition=%d to=%s done_bytes=%d of=%d lag=%d mib_per_s=%.1f left_s=%s",
            *self.tp,
            self.destination.path,
            self.done_bytes,
            self.done_bytes + self.left_bytes,
            self.lag,
            self.rate(now_ns) / MEBIBYTE,
            "unknown" if left_s is None else f"{left_s:.0f}",
        )

    def say_done(self, held_ns: int, now_ns: int) -> None:
        """Log the totals of a move that came to its end."""
        seconds = (now_ns - self.started_ns) / 1e9
        logger.info(
            "move done topic=%s partition=%d from=%s to=%s copied_bytes=%d seconds=%.3f mib_per_s=%.1f "
            "end_offset=%d appends_held_ms=%.1f",
            *self.tp,
            self.source.path,
            self.destination.path,
            self.copy.copied_bytes,
            seconds,
            self.copy.copied_bytes / MEBIBYTE / max(seconds, 1e-9),
            self.partition.log.log_end_offset,
            held_ns / 1e6,
        )

    def say_given_up(self) -> None:
        """Log why a move does not go on."""
        logger.info(
            "move given up topic=%s partition=%d from=%s to=%s copied_bytes=%d reason=%s",
            *self.tp,
            self.source.path,
            self.destination.path,
            self.copy.copied_bytes,
            self.end_reason,
        )
