"""What the parts of one log share: its files, its clock, its settings and its mutable structures.

One object per log. `config` may be replaced at any time; `path` follows renames of the directory. Everything else is
fixed after loading, and what changes inside has exactly one writer, named beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from config.views import LogConfig
from storage.env.clock import Clock, Rng
from storage.env.fs import FileSystem
from storage.epochs.cache import LeaderEpochCache
from storage.errors import LogClosed
from storage.log.deletions import Deletions
from storage.log.offsets import LogOffsets
from storage.log.page_budget import PageCacheBudget
from storage.producers.state import ProducerStateManager
from storage.segment.log_file import WriteQueue
from storage.segment.open_files import OpenFiles
from storage.segment.segment import Segment
from storage.segment.segments import Segments
from storage.stats import StorageStats
from storage.types import TopicPartition

if TYPE_CHECKING:
    from storage.log.delivery import Delivery

_INT32_MIN: Final = -(1 << 31)


class LogState:
    """The shared inside of a PartitionLog."""

    __slots__ = (
        "clock",
        "config",
        "cut_count",
        "deletions",
        "delivery",
        "epochs",
        "fs",
        "has_new_names",
        "has_unsynced_directory",
        "is_closed",
        "last_flush_ms",
        "noted_future_base",
        "offsets",
        "on_cut",
        "on_rolled",
        "on_window_full",
        "open_files",
        "page_cache",
        "path",
        "producers",
        "read_positions",
        "released_offset",
        "rng",
        "segments",
        "stats",
        "topic_id",
        "tp",
        "unfinished_removals",
        "unproven_from",
        "unsynced_files",
        "write_queue",
    )

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        rng: Rng,
        path: str,
        tp: TopicPartition,
        config: LogConfig,
        stats: StorageStats,
        producers: ProducerStateManager,
        deletions: Deletions,
        page_cache: PageCacheBudget,
    ) -> None:
        self.fs = fs
        self.clock = clock
        self.rng = rng
        self.tp = tp
        self.stats = stats
        self.deletions = deletions
        self.page_cache = page_cache
        self.path = path  # written by PartitionLog when its directory is renamed
        self.config = config  # replaced by PartitionLog on a change of settings
        self.topic_id: bytes | None = None
        self.open_files: OpenFiles | None = None  # set once the log is loaded; recovery keeps few files open itself
        self.is_closed = False  # set once, by PartitionLog when it is closed, deleted or given up
        self.has_new_names = False  # files were created or renamed since the directory was last synced
        self.has_unsynced_directory = (
            False  # the directory's own name may not be durable; written by the loader and flush
        )
        self.unsynced_files: list[str] = []  # small files that the next flush must make durable
        self.last_flush_ms = clock.now_ms()  # written by flush
        self.cut_count = 0  # truncations, after which an offset may stand for another record
        self.write_queue = WriteQueue()  # fixed; what is in it is written by appends and log.direct_writes
        self.on_rolled: Callable[[], None] = _nothing  # replaced by whoever flushes sealed segments in the background
        self.on_window_full: Callable[[], None] = _nothing  # replaced by whoever runs write-backs
        self.on_cut: Callable[[int], None] = nothing_cut  # replaced by whoever copies the log
        self.segments = Segments(self._forget_pages)  # written by the loader, append (roll), truncation and retention
        self.epochs = LeaderEpochCache(fs, path)  # written by assign_epoch, truncation and replicated appends
        self.offsets = LogOffsets(0, 0, 0, 0)  # set by the loader, then moved through its own methods only
        # Where the first batch that ends at or above an offset starts; written by the reader, cleared with removals.
        self.read_positions: dict[int, tuple[Segment, int]] = {}
        self.delivery: Delivery | None = None  # while the topic is scheduled; written by log.delivery
        self.released_offset = 0  # what was released while it was scheduled before; written by log.delivery
        self.noted_future_base = -1  # the segment whose future timestamps retention has reported
        # Of a copy: from here on a power failure may have taken batches from the middle. Set by PartitionLog once the
        # copy is loaded; cleared by log.copying, and when the copy becomes the log.
        self.unproven_from: int | None = None
        self.unfinished_removals: list[int] = []  # first bases of detached segments that may still have their names
        self.producers = producers  # written by appends, recovery and truncation

    def ensure_open(self) -> None:
        """Refuse work on a log that was closed. Raises: LogClosed."""
        if self.is_closed:
            raise LogClosed(str(self.tp))

    def forget(self) -> None:
        """Let go of what was loaded so far, to load anew."""
        for segment in self.segments:
            segment.release_files()
        self.segments = Segments(self._forget_pages)
        self.producers.reset(0)

    def new_segment(self, base_offset: int, log_size: int = 0) -> Segment:
        """Make a segment object with its own sample of the roll jitter; no file is touched."""
        segment = Segment(
            self.fs,
            self.path,
            base_offset,
            self.config,
            created_ms=self.clock.now_ms(),
            jitter_ms=segment_jitter_ms(self.config, self.rng),
            log_size=log_size,
            queue=self.write_queue,
        )
        if self.open_files is not None:
            segment.count_in(self.open_files)
        return segment

    def count_files(self, open_files: OpenFiles) -> None:
        """Let the open files of all segments, and of those to come, count among those of all logs."""
        self.open_files = open_files
        for segment in self.segments:
            segment.count_in(open_files)

    def count_cached(self, segment: Segment, end: int) -> None:
        """Let the page cache's budget know of a sync of a `.log` up to `end`; of segments that have left it does not.

        Called when a sync has ended, by flush and write-back. What was written past the page cache is not in it.
        """
        if segment.log.is_direct:
            segment.cached_from = end
        elif self.segments.floor(segment.base_offset) is segment:
            segment.cached_from = self.page_cache.add(
                segment.log, segment.cached_from, min(end, segment.log.size), self.config.page_cache_budget_bytes
            )

    def _forget_pages(self, segment: Segment) -> None:
        self.page_cache.forget(segment.log)


def segment_jitter_ms(config: LogConfig, rng: Rng) -> int:
    """Sample the roll jitter: uniform in [0, min(jitter, segment.ms))."""
    bound = min(config.segment_jitter_ms, config.segment_ms)
    if bound <= 0:
        return 0
    sample = rng.int32()
    return 0 if sample == _INT32_MIN else abs(sample) % bound


def _nothing() -> None:
    """For logs that nobody does background work for."""


def nothing_cut(offset: int) -> None:
    """For logs that nobody copies."""
