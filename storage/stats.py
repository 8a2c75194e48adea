"""Plain counters of storage; the metrics exporter reads them at scrape, nothing here knows of metrics."""

from __future__ import annotations

from collections.abc import Callable


class StorageStats:
    """Counts since start, of all logs of a broker. Written by the logs, read by the exporter."""

    __slots__ = (
        "appended_batches",
        "appended_bytes",
        "cut_bytes",
        "deleted_bytes",
        "deleted_segments",
        "duplicate_batches",
        "flush_ns",
        "flushes",
        "on_activated",
        "recovered_segments",
        "rolled_segments",
        "scanned_bytes",
        "truncations",
    )

    def __init__(self) -> None:
        self.appended_batches = 0
        self.appended_bytes = 0
        self.duplicate_batches = 0
        self.rolled_segments = 0
        self.recovered_segments = 0
        self.cut_bytes = 0  # damaged or torn tails removed by recovery
        self.scanned_bytes = 0  # read by recovery
        self.truncations = 0
        self.deleted_segments: dict[str, int] = {}  # by the reason of retention
        self.deleted_bytes: dict[str, int] = {}
        self.flushes = 0
        self.flush_ns = 0
        # Told how late a batch of a scheduled topic became visible, in ms, of those that were seen to be pending;
        # replaced by whoever observes that.
        self.on_activated: Callable[[int], None] = _nobody_asks

    def add_loading(self, progress: LoadProgress) -> None:
        """Count what a thread did that loaded logs, once it is done."""
        self.recovered_segments += progress.recovered_segments
        self.scanned_bytes += progress.scanned_bytes
        self.cut_bytes += progress.cut_bytes

    def note_deleted(self, reason: str, size_bytes: int) -> None:
        """Count a segment that retention let go."""
        self.deleted_segments[reason] = self.deleted_segments.get(reason, 0) + 1
        self.deleted_bytes[reason] = self.deleted_bytes.get(reason, 0) + size_bytes


def _nobody_asks(lateness_ms: int) -> None:
    """For stats that nobody observes as they come."""


class LoadProgress:
    """How far one thread has come in loading logs; it alone writes, others may read at any time."""

    __slots__ = ("cut_bytes", "is_busy", "recovered_segments", "scanned_bytes", "segments_left")

    def __init__(self) -> None:
        self.scanned_bytes = 0  # read by recovery
        self.cut_bytes = 0
        self.recovered_segments = 0
        self.is_busy = False  # loading a log
        self.segments_left = 0  # to recover, of the log being loaded
