"""LogManager: finds, creates, loads, deletes and closes the logs of a broker across its directories.

Identity rules at start: one directory listed twice is refused, a locked one too, cluster and node id agree everywhere,
directory ids are unique. A directory that cannot be used is offline and the others serve; none left is an error.
Foreign folders and files are reported or ignored, never touched. Source: Kafka's LogManager; KIP-112, KIP-858.
"""

from __future__ import annotations

import logging
import os.path
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from config.views import LogConfig
from protocol.uuids import RESERVED_BELOW, format_uuid
from storage.checkpoints.partition_metadata import read_partition_metadata
from storage.dirs.closing import DirClosing
from storage.dirs.deleted_logs import DeletedLogs
from storage.dirs.errors import DuplicateLog, InconsistentDirs, NoUsableDir
from storage.dirs.identities import ensure_listed_once, settle_identities
from storage.dirs.loading import DirLoading, LogToLoad, as_failure
from storage.dirs.log_dir import DATA_LOGS, LogDir
from storage.env.clock import Clock, Rng, monotonic_ms
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint, StorageError, StorageFailure
from storage.log.deletions import Deletions, unlink_files
from storage.log.page_budget import PageCacheBudget
from storage.log.partition_log import PartitionLog
from storage.producers.state import DEFAULT_EXPIRATION_MS
from storage.segment.names import (
    CLEANER_CHECKPOINT,
    DELETE_DIR_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    STRAY_DIR_SUFFIX,
    partition_dir,
    suffixed_dir,
)
from storage.segment.open_files import OpenFiles
from storage.stats import LoadProgress, StorageStats
from storage.types import TopicPartition

ConfigFor = Callable[[TopicPartition], LogConfig]

logger = logging.getLogger(__name__)


class LogManager:
    """All logs of one broker."""

    __slots__ = (
        "_cleaner_offsets",
        "_clock",
        "_dir_of",
        "_fs",
        "_producer_id_expiration_ms",
        "_rivals",
        "_rng",
        "deleted_logs",
        "deletions",
        "dirs",
        "loading",
        "logs",
        "open_files",
        "page_cache",
        "stats",
    )

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        rng: Rng,
        dirs: Sequence[str],
        *,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        stats: StorageStats | None = None,
        page_cache: PageCacheBudget | None = None,
        open_files: OpenFiles | None = None,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._rng = rng
        self._producer_id_expiration_ms = producer_id_expiration_ms  # replaced by set_producer_id_expiration_ms
        self.stats = stats or StorageStats()
        self.page_cache = page_cache or PageCacheBudget()  # of all logs; on the side that owns the logs
        self.open_files = OpenFiles() if open_files is None else open_files  # of all logs
        self.deleted_logs = DeletedLogs(fs)
        self.deletions = Deletions()  # removed segments of all logs; on the side that owns the logs
        self.dirs = [LogDir(fs, normal_path(path)) for path in dirs]
        self.loading: list[DirLoading] = []  # how the directories were loaded at this start; set by begin_loading
        self.logs: dict[TopicPartition, PartitionLog] = {}  # current logs; written by load, create and delete
        self._dir_of: dict[TopicPartition, LogDir] = {}
        # Where compacted logs begin to be dirty, for those of `logs` that were cleaned before.
        self._cleaner_offsets: dict[TopicPartition, int] = {}
        # Logs of another topic id that a partition has besides the one in `logs`; from load to settle_rivals.
        self._rivals: list[tuple[TopicPartition, LogDir, PartitionLog]] = []

    def set_producer_id_expiration_ms(self, expiration_ms: int) -> None:
        """Replace the idle time after which producers are forgotten, in all logs and those to come."""
        self._producer_id_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.set_producer_id_expiration_ms(expiration_ms)

    # --- start ---

    def open_dirs(self, node_id: int, cluster_id: str | None = None) -> str:
        """Create, lock and identify the directories; return the cluster id, a new one when every dir is fresh.

        Raises: InconsistentDirs, DirLocked, NoUsableDir; locks taken so far are given back. Blocking: disk.
        """
        try:
            ensure_listed_once(self._fs, self.dirs)
            for log_dir in self.dirs:
                try:
                    log_dir.open()
                except StorageFailure as failure:
                    log_dir.fail(failure)
                except CorruptCheckpoint as error:
                    raise InconsistentDirs(str(error)) from error
            if not any(log_dir.is_online for log_dir in self.dirs):
                raise NoUsableDir(f"no log directory can be used: {', '.join(log_dir.path for log_dir in self.dirs)}")
            return settle_identities(
                self._fs, self._rng, list(self.online_dirs()), node_id=node_id, cluster_id=cluster_id
            )
        except StorageError:
            self._release_locks()
            raise

    def online_dirs(self) -> Iterator[LogDir]:
        """Iterate the directories that are trusted, in configured order."""
        return (log_dir for log_dir in self.dirs if log_dir.is_online)

    # --- loading: see storage.dirs.loading ---

    def load_all(self, config_for: ConfigFor) -> None:
        """Load every log of every online directory here and now; see finish_loading. Blocking: disk, cpu."""
        for one in self.begin_loading(config_for):
            one.prepare()
        self.ensure_unique()
        for one in self.loading:
            one.work(one.add_worker())
        self.finish_loading()

    def begin_loading(self, config_for: ConfigFor) -> list[DirLoading]:
        """Return the work for each online directory: prepare all, ensure_unique, work, finish_loading."""

        def open_log(one: LogToLoad, loading: DirLoading, progress: LoadProgress) -> PartitionLog:
            return PartitionLog.open(
                self._fs,
                self._clock,
                self._rng,
                one.path,
                one.tp,
                config_for(one.tp),
                recovery_point=loading.recovery_points.get(one.tp, 0),
                log_start_offset=loading.log_starts.get(one.tp, 0),
                high_watermark=loading.high_watermarks.get(one.tp, 0),
                clean=loading.is_clean,
                producer_id_expiration_ms=self._producer_id_expiration_ms,
                stats=self.stats,
                deletions=self.deletions,
                progress=progress,
                page_cache=self.page_cache,
                open_files=self.open_files,
            )

        self.loading = [DirLoading(self._fs, log_dir, open_log) for log_dir in self.online_dirs()]
        return self.loading

    def ensure_unique(self) -> None:
        """Make sure that no two directories hold the log of one partition, but those of different topic ids.

        Raises: DuplicateLog. Blocking: reads the id files of partitions that occur twice.
        """
        seen: dict[TopicPartition, str] = {}
        for one in (log for loading in self.loading for log in loading.logs):
            first = seen.setdefault(one.tp, one.path)
            if first == one.path:
                continue
            topic_id, first_id = self._topic_id(one.path), self._topic_id(first)
            if topic_id is None or first_id in (None, topic_id):
                raise DuplicateLog(one.tp, first, one.path)

    def _topic_id(self, path: str) -> bytes | None:
        try:
            return read_partition_metadata(self._fs, path)
        except CorruptCheckpoint:
            return None  # opening the log reports it

    def finish_loading(self) -> None:
        """Take over the loaded logs; what failed with an I/O error puts its directory offline.

        Recovery points above the end of a log are corrected here and now: what is appended up to them would count as
        flushed after a crash. Blocking: disk, where there are any.
        Raises: CorruptRecord for a log that cannot be made sense of.
        """
        for loading in self.loading:
            for worker in loading.workers:
                self.stats.add_loading(worker)
            failure = loading.first_failure()
            if isinstance(failure, StorageFailure):
                self.fail_dir(loading.log_dir, failure)
            elif failure is not None:
                raise failure
            elif not loading.is_stopped:
                self._take_over(loading)
        if any(loading.has_high_recovery_points for loading in self.loading):
            self._write_or_fail(self.checkpoint_recovery_points)

    def _take_over(self, loading: DirLoading) -> None:
        log_dir, now_ms = loading.log_dir, monotonic_ms(self._clock)
        for one in loading.logs:
            assert one.log is not None, one.path
            if one.tp in self.logs:
                self._rivals.append((one.tp, log_dir, one.log))
                continue
            self.logs[one.tp] = one.log
            self._dir_of[one.tp] = log_dir
            # Above the end of a log that lost its tail it would soon cover records that were never cleaned.
            if (offset := loading.cleaner_offsets.get(one.tp)) is not None and offset <= one.log.log_end_offset:
                self._cleaner_offsets[one.tp] = offset
            if loading.recovery_points.get(one.tp, 0) > one.log.log_end_offset:
                loading.has_high_recovery_points = True
        for path in loading.deleted_paths:
            self.deleted_logs.schedule(now_ms, log_dir, path)
        log_dir.note_loaded(DATA_LOGS)
        loading.forget()

    def settle_rivals(self, is_current: Callable[[TopicPartition, bytes | None], bool]) -> None:
        """Decide which log of a partition is served where a directory came back with one of an earlier topic id.

        It was offline when the topic was deleted and created anew elsewhere. Source: KAFKA-16234. Blocking: renames.
        """
        rivals, self._rivals = self._rivals, []
        for tp, log_dir, log in rivals:
            listed = self.logs.get(tp)
            if listed is None or is_current(tp, log.topic_id):
                listed_dir = self._dir_of.get(tp)
                self.logs[tp], self._dir_of[tp] = log, log_dir
                self._cleaner_offsets.pop(tp, None)  # the other log's
                if listed is None or listed_dir is None:
                    continue
                log_dir, log = listed_dir, listed
            logger.warning("setting a stray log aside partition=%s dir=%s", tp, log.path)
            try:
                self._rename_aside(tp, log, log_dir, STRAY_DIR_SUFFIX)
            except StorageFailure as failure:
                logger.error("cannot set a stray log aside partition=%s reason=%s", tp, failure)

    # --- create and delete ---

    def ensure_not_elsewhere(self, tp: TopicPartition, directory_id: bytes) -> None:
        """Refuse to begin the log of an older partition anew: its records may lie in a directory that is away.

        directory_id is where the metadata says that the log is. Raises: StorageFailure. Source: KIP-858.
        """
        away = [log_dir.path for log_dir in self.dirs if not log_dir.is_online]
        if away:
            raise StorageFailure(f"no log of {tp} is here, and log directories are offline: {', '.join(away)}")
        is_real = int.from_bytes(directory_id, "big") >= RESERVED_BELOW
        if is_real and all(log_dir.directory_id != directory_id for log_dir in self.dirs):
            raise StorageFailure(
                f"the log of {tp} is in the directory with directory.id {format_uuid(directory_id)}, "
                "which is none of log.dirs"
            )

    def create(
        self, tp: TopicPartition, topic_id: bytes | None, config: LogConfig, directory: str | None = None
    ) -> PartitionLog:
        """Create the log of a new partition, by default in the online directory with the fewest logs.

        Raises: StorageFailure when no directory takes it; a directory that fails on the way goes offline.
        Blocking: disk.
        """
        assert tp not in self.logs, tp
        for log_dir in self._candidates(directory):
            path = os.path.join(log_dir.path, partition_dir(tp))
            if not self._fs.exists(log_dir.path):  # made anew, it would hide that everything in it is gone
                self.fail_dir(log_dir, StorageFailure(f"log directory {log_dir.path} has vanished", log_dir.path))
                continue
            try:
                log = PartitionLog.open(
                    self._fs,
                    self._clock,
                    self._rng,
                    path,
                    tp,
                    config,
                    topic_id=topic_id,
                    clean=True,
                    producer_id_expiration_ms=self._producer_id_expiration_ms,
                    stats=self.stats,
                    deletions=self.deletions,
                    page_cache=self.page_cache,
                    open_files=self.open_files,
                )
            except StorageFailure as failure:
                self.fail_dir(log_dir, failure)
                continue
            self.logs[tp] = log
            self._dir_of[tp] = log_dir
            return log
        raise StorageFailure(f"no log directory can take {tp}")

    def _candidates(self, directory: str | None) -> list[LogDir]:
        online = list(self.online_dirs())
        if directory is not None:
            return [log_dir for log_dir in online if log_dir.path == directory]
        if len(online) == 1:
            return online
        counts = Counter(log_dir.path for log_dir in tuple(self._dir_of.values()))  # the loop may change it meanwhile
        return sorted(online, key=lambda log_dir: counts[log_dir.path])

    def dir_of(self, tp: TopicPartition) -> LogDir | None:
        """Return the directory that holds the current log of a partition."""
        return self._dir_of.get(tp)

    def delete(self, tp: TopicPartition, *, delay_ms: int = 0) -> None:
        """Stop serving a log: rename its directory now, unlink the files after the delay.

        The new name is durable after the next purge of `deleted_logs`; if the machine dies before, the next start finds
        a log that is nobody's. Readers with pinned regions go on. Raises: StorageFailure. Blocking: one rename.
        """
        self._set_aside(tp, DELETE_DIR_SUFFIX, delay_ms)

    def set_stray(self, tp: TopicPartition) -> None:
        """Keep the log of a partition that the metadata does not know aside; its files stay for an operator."""
        self._set_aside(tp, STRAY_DIR_SUFFIX, None)

    def _set_aside(self, tp: TopicPartition, marker: str, delay_ms: int | None) -> None:
        log = self.logs.pop(tp, None)
        if log is None:
            return
        self._cleaner_offsets.pop(tp, None)
        log_dir = self._dir_of.pop(tp)
        target = self._rename_aside(tp, log, log_dir, marker)
        if delay_ms is not None:
            self.deleted_logs.schedule(monotonic_ms(self._clock) + delay_ms, log_dir, target)

    def _rename_aside(self, tp: TopicPartition, log: PartitionLog, log_dir: LogDir, marker: str) -> str:
        log.fail()  # nothing of it needs to be flushed
        target = os.path.join(log_dir.path, suffixed_dir(tp, self._rng.random_bytes(16).hex(), marker))
        try:
            self._fs.rename(log.path, target)
        except OSError as error:
            failure = as_failure(error, log.path)
            self.fail_dir(log_dir, failure)
            raise failure from error
        self.deleted_logs.note_renamed(log_dir)
        log.move_to_directory(target)
        return target

    def take_due_deletions(self, now_ms: int) -> list[tuple[LogDir, Callable[[], None]]]:
        """Take out the removed segments' files that are due: a call per online directory that unlinks its share.

        On the side that owns the logs; the calls may run in any thread and raise StorageFailure. Blocking: none.
        """
        shares: dict[str, tuple[LogDir, list[str]]] = {}
        for path in self.deletions.take_due(now_ms):
            log_dir = self.dir_at(path)
            if log_dir is not None and log_dir.is_online:
                shares.setdefault(log_dir.path, (log_dir, []))[1].append(path)
        return [(log_dir, partial(unlink_files, self._fs, paths)) for log_dir, paths in shares.values()]

    # --- checkpoints ---

    def checkpoint_recovery_points(self) -> None:
        """Write how far each log is durable; everything below is on disk before this is called. See _checkpoint."""
        self._checkpoint(RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks. See _checkpoint."""
        self._checkpoint(HIGH_WATERMARK_CHECKPOINT, lambda log: log.high_watermark)

    def checkpoint_log_starts(self) -> None:
        """Write the log starts that the segment names do not tell. See _checkpoint."""
        self._checkpoint(LOG_START_CHECKPOINT, lambda log: log.log_start_to_checkpoint)

    def cleaner_checkpoint(self, tp: TopicPartition) -> int | None:
        """Return the offset below which a log was cleaned, None when it never was."""
        return self._cleaner_offsets.get(tp)

    def set_cleaner_checkpoint(self, tp: TopicPartition, offset: int) -> None:
        """Note how far a log is clean; checkpoint_cleaner_offsets makes it last."""
        if tp in self.logs:
            self._cleaner_offsets[tp] = offset

    def checkpoint_cleaner_offsets(self) -> None:
        """Write how far each log is clean; logs that are gone lose their line. See _checkpoint."""
        self._checkpoint(CLEANER_CHECKPOINT, lambda log: self._cleaner_offsets.get(log.tp))

    def _checkpoint(self, name: str, value: Callable[[PartitionLog], int | None]) -> None:
        """Write one file per online directory.

        Raises: StorageFailure, after the other directories were written; its path tells which one to put offline, on
        the thread that owns the logs. Blocking: disk; any thread, since it only reads offsets.
        """
        first_failure: StorageFailure | None = None
        for log_dir in list(self.online_dirs()):
            offsets = {tp: offset for tp, log in self._logs_in(log_dir) if (offset := value(log)) is not None}
            try:
                log_dir.write_checkpoint(name, offsets)
            except StorageFailure as failure:
                first_failure = first_failure or failure
        if first_failure is not None:
            raise first_failure

    def _logs_in(self, log_dir: LogDir) -> Iterable[tuple[TopicPartition, PartitionLog]]:
        owned = [tp for tp, owner in list(self._dir_of.items()) if owner is log_dir]
        return [(tp, log) for tp in owned if (log := self.logs.get(tp)) is not None]

    # --- failure and stop ---

    def fail_dir(self, log_dir: LogDir, failure: StorageFailure) -> list[TopicPartition]:
        """Put a directory offline and let go of its logs; return the partitions that went with it."""
        log_dir.fail(failure)
        self._rivals = [rival for rival in self._rivals if rival[1] is not log_dir]
        lost = []
        for tp, log in self._logs_in(log_dir):
            log.fail()
            del self.logs[tp], self._dir_of[tp]
            self._cleaner_offsets.pop(tp, None)
            lost.append(tp)
        log_dir.release()
        return lost

    def dir_at(self, path: str | None) -> LogDir | None:
        """Return the directory that a path, as carried by StorageFailure, lies in."""
        if path is None:
            return None
        for log_dir in self.dirs:
            if path == log_dir.path or path.startswith(log_dir.path + os.sep):
                return log_dir
        return None

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Stop here and now; see finish_closing. With clean=False nothing is written. Blocking: disk."""
        if not clean:
            for log in self.logs.values():
                log.fail()
            self._release_locks()
            return
        closing = self.begin_closing()
        for one in closing:
            one.work()
        self.finish_closing(closing, broker_epoch=broker_epoch)

    def begin_closing(self) -> list[DirClosing]:
        """Return the work for each online directory, to be done by any threads before finish_closing."""
        return [DirClosing(log_dir, (log for _, log in self._logs_in(log_dir))) for log_dir in self.online_dirs()]

    def finish_closing(self, closing: Iterable[DirClosing], *, broker_epoch: int = -1) -> None:
        """Write what makes the marker true, in this order: recovery points, log starts, high watermarks, marker.

        A directory with a log that cannot be closed gets no marker. Blocking: disk.
        """
        for one in closing:
            if one.failure is not None:
                self.fail_dir(one.log_dir, one.failure)
        for write in (self.checkpoint_recovery_points, self.checkpoint_log_starts, self.checkpoint_high_watermarks):
            self._write_or_fail(write)
        for log_dir in list(self.online_dirs()):
            try:
                log_dir.mark_clean(broker_epoch)
            except StorageFailure as failure:
                self.fail_dir(log_dir, failure)
        self._release_locks()

    def _write_or_fail(self, write: Callable[[], None]) -> None:
        """Repeat a checkpoint without each directory that fails it; every failure takes one away, so this ends."""
        while True:
            try:
                return write()
            except StorageFailure as failure:
                log_dir = self.dir_at(failure.path)
                assert log_dir is not None, failure
                self.fail_dir(log_dir, failure)

    def _release_locks(self) -> None:
        for log_dir in self.dirs:
            log_dir.release()

    def __repr__(self) -> str:
        return f"LogManager({self.dirs}, logs={len(self.logs)}, deleted={len(self.deleted_logs)})"


def normal_path(path: str) -> str:
    """Return the one spelling of a directory that is compared and shown: absolute, no trailing slash."""
    return os.path.abspath(path)
