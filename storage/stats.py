"""Plain counters of storage; the metrics exporter reads them at scrape, nothing here knows of metrics."""

from __future__ import annotations


class StorageStats:
    """Counts since start, of all logs of a broker. Written by the logs, read by the exporter."""

    __slots__ = (
        "appended_batches",
        "appended_bytes",
        "cut_bytes",
        "duplicate_batches",
        "flush_ns",
        "flushes",
        "recovered_segments",
        "rolled_segments",
        "truncations",
    )

    def __init__(self) -> None:
        self.appended_batches = 0
        self.appended_bytes = 0
        self.duplicate_batches = 0
        self.rolled_segments = 0
        self.recovered_segments = 0
        self.cut_bytes = 0  # damaged or torn tails removed by recovery
        self.truncations = 0
        self.flushes = 0
        self.flush_ns = 0
