"""What the cleaner counts, in plain numbers that the exporter reads at a scrape."""

from typing import NamedTuple


class LastPass(NamedTuple):
    """How the last complete pass went, for the gauges that Kafka keeps of each cleaner thread's last run."""

    read_bytes: int = 0  # of both phases
    copy_read_bytes: int = 0  # of the second one: of these, written_bytes were kept
    written_bytes: int = 0
    seconds: float = 0.0
    map_utilization: float = 0.0


class CleanerStats:
    """Counts since start, and what the last look and the last pass found."""

    __slots__ = (
        "aborted",
        "failures",
        "last_look_ns",
        "last_pass",
        "max_compaction_delay_ms",
        "max_dirty_ratio",
        "passes",
        "read_bytes",
        "removed_records",
        "seconds",
        "written_bytes",
    )

    def __init__(self, now_ns: int) -> None:
        self.passes = 0
        self.failures = 0
        self.aborted = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self.removed_records = 0
        self.seconds = 0.0
        self.last_pass = LastPass()
        self.last_look_ns = now_ns
        self.max_dirty_ratio = 0.0
        self.max_compaction_delay_ms = 0

    def count(self, one: LastPass, removed_records: int) -> None:
        """Add a complete pass."""
        self.passes += 1
        self.read_bytes += one.read_bytes
        self.written_bytes += one.written_bytes
        self.removed_records += removed_records
        self.seconds += one.seconds
        self.last_pass = one
