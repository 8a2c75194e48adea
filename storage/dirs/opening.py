"""Opening logs: what all logs of a broker share, handed to each of them.

A future log works in other threads than the owner's, so it gets bookkeeping of its own and joins the others once it is
promoted.
"""

from __future__ import annotations

from config.views import LogConfig
from storage.dirs.loading import DirLoading, LogToLoad
from storage.env.clock import Clock, Rng
from storage.env.fs import FileSystem
from storage.log.deletions import Deletions
from storage.log.loader import LoadParameters
from storage.log.page_budget import PageCacheBudget
from storage.log.partition_log import PartitionLog
from storage.segment.open_files import OpenFiles
from storage.stats import LoadProgress, StorageStats
from storage.types import TopicPartition


class Opening:
    """Opens logs for one broker."""

    __slots__ = (
        "_clock",
        "_fs",
        "_rng",
        "deletions",
        "open_files",
        "page_cache",
        "producer_id_expiration_ms",
        "stats",
    )

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        rng: Rng,
        *,
        producer_id_expiration_ms: int,
        stats: StorageStats,
        page_cache: PageCacheBudget,
        open_files: OpenFiles,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._rng = rng
        self.producer_id_expiration_ms = producer_id_expiration_ms  # replaced by changes of the setting
        self.stats = stats
        self.page_cache = page_cache  # on the side that owns the logs, as are the following
        self.open_files = open_files
        self.deletions = Deletions()

    def load(self, one: LogToLoad, config: LogConfig, loading: DirLoading, progress: LoadProgress) -> PartitionLog:
        """Open a log that was found at the start. Raises: StorageFailure, CorruptRecord. Blocking: disk, cpu."""
        parameters = LoadParameters(
            loading.recovery_points.get(one.tp, 0),
            loading.log_starts.get(one.tp, 0),
            loading.high_watermarks.get(one.tp, 0),
            loading.is_clean,
        )
        log = self._open(one.path, one.tp, config, parameters, progress=progress, is_alone=one.is_future)
        if one.is_future:
            log.trust_below(parameters.recovery_point)  # also after a clean stop: the one before need not have been
        return log

    def create(self, path: str, tp: TopicPartition, config: LogConfig, topic_id: bytes | None) -> PartitionLog:
        """Begin the log of a new partition. Raises: StorageFailure. Blocking: disk."""
        return self._open(path, tp, config, LoadParameters(is_clean=True), topic_id=topic_id)

    def create_future(self, path: str, config: LogConfig, current: PartitionLog) -> PartitionLog:
        """Begin a copy of a log, at its log start. Raises: StorageFailure. Blocking: disk; any thread."""
        parameters = LoadParameters(log_start_offset=current.log_start_offset, is_clean=True)
        return self._open(path, current.tp, config, parameters, topic_id=current.topic_id, is_alone=True)

    def join(self, log: PartitionLog) -> None:
        """Let a promoted log share what the others share."""
        log.share(
            stats=self.stats,
            deletions=self.deletions,
            page_cache=self.page_cache,
            open_files=self.open_files,
        )

    def _open(
        self,
        path: str,
        tp: TopicPartition,
        config: LogConfig,
        parameters: LoadParameters,
        *,
        topic_id: bytes | None = None,
        progress: LoadProgress | None = None,
        is_alone: bool = False,
    ) -> PartitionLog:
        return PartitionLog.open(
            self._fs,
            self._clock,
            self._rng,
            path,
            tp,
            config,
            topic_id=topic_id,
            recovery_point=parameters.recovery_point,
            log_start_offset=parameters.log_start_offset,
            high_watermark=parameters.high_watermark,
            clean=parameters.is_clean,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            progress=progress,
            stats=None if is_alone else self.stats,
            deletions=None if is_alone else self.deletions,
            page_cache=None if is_alone else self.page_cache,
            open_files=None if is_alone else self.open_files,
        )
