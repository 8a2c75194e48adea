"""LogManager: finds, creates, loads, deletes and closes the logs of a broker across its directories.

Identity rules at start: one directory listed twice is refused, a locked one too, cluster and node id agree everywhere,
directory ids are unique. A directory that cannot be used is offline and the others serve; none left is an error.
Foreign folders and files are reported or ignored, never touched.

Behind this façade `inventory` knows which logs lie where, `placement` where new ones go, `moving` and `futures` how a
log gets to another directory, `settling` what becomes of the logs that a start finds, `checkpoints` what is written of
them. Source: Kafka's LogManager; KIP-112, KIP-858.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from config.views import LogConfig
from protocol.uuids import ZERO_UUID
from storage.dirs.checkpoints import DirCheckpoints
from storage.dirs.closing import DirClosing
from storage.dirs.errors import InconsistentDirs, NoUsableDir
from storage.dirs.futures import FutureLog
from storage.dirs.identities import ensure_listed_once, settle_identities
from storage.dirs.inventory import Inventory
from storage.dirs.loading import DirLoading, LogToLoad, is_log_folder
from storage.dirs.log_dir import DATA_LOGS, LogDir
from storage.dirs.moving import Moving, Retired
from storage.dirs.opening import Opening
from storage.dirs.placement import Placement
from storage.dirs.renames import Renames
from storage.dirs.settling import DirectoryOf, IsCurrent, Settling, ensure_unique
from storage.env.clock import Clock, Rng, monotonic_ms
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint, StorageError, StorageFailure
from storage.log.deletions import remove_log_files, unlink_files
from storage.log.page_budget import PageCacheBudget
from storage.log.partition_log import PartitionLog
from storage.producers.state import DEFAULT_EXPIRATION_MS
from storage.segment.names import partition_dir
from storage.segment.open_files import OpenFiles
from storage.stats import LoadProgress, StorageStats
from storage.types import TopicPartition

ConfigFor = Callable[[TopicPartition], LogConfig]
OnFailure = Callable[[LogDir, StorageFailure], object]
"""Is told of a directory that has failed an operation, to put it offline."""

logger = logging.getLogger(__name__)


class LogManager:
    """All logs of one broker."""

    __slots__ = (
        "_checkpoints",
        "_clock",
        "_fs",
        "_inventory",
        "_moving",
        "_opening",
        "_placement",
        "_renames",
        "_rng",
        "_settling",
        "deleted_logs",
        "deletions",
        "dirs",
        "futures",
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
        self.dirs = [LogDir(fs, normal_path(path)) for path in dirs]
        self.stats = stats or StorageStats()
        self.page_cache = page_cache or PageCacheBudget()  # of all logs; on the side that owns the logs
        self.open_files = OpenFiles() if open_files is None else open_files  # of all logs
        self._opening = Opening(
            fs,
            clock,
            rng,
            producer_id_expiration_ms=producer_id_expiration_ms,
            stats=self.stats,
            page_cache=self.page_cache,
            open_files=self.open_files,
        )
        self.deletions = self._opening.deletions  # removed segments of all logs; on the side that owns the logs
        self._inventory = Inventory(self.dirs)
        self.logs: Mapping[TopicPartition, PartitionLog] = self._inventory.logs  # the current ones
        self.futures: Mapping[TopicPartition, FutureLog] = self._inventory.futures
        self._renames = Renames(fs, clock, rng, self._inventory)
        self.deleted_logs = self._renames.deleted_logs
        self._moving = Moving(fs, self._inventory, self._opening, self._renames)
        self._placement = Placement(self._inventory)
        self._settling = Settling(self._inventory, self._renames, self._moving)
        self._checkpoints = DirCheckpoints(self._inventory)
        self.loading: list[DirLoading] = []  # how the directories were loaded at this start; set by begin_loading

    def set_producer_id_expiration_ms(self, expiration_ms: int) -> None:
        """Replace the idle time after which producers are forgotten, in all logs and those to come."""
        self._opening.producer_id_expiration_ms = expiration_ms
        for log in [*self.logs.values(), *(future.log for future in self.futures.values())]:
            log.set_producer_id_expiration_ms(expiration_ms)

    # --- start ---

    def open_dirs(self, node_id: int, fresh_cluster_id: str | None = None) -> str:
        """Create, lock and identify the directories; return the cluster id, a new one when every dir is fresh.

        Raises: InconsistentDirs, DirLocked, NoUsableDir; locks taken so far are given back. Blocking: disk.
        """
        try:
            ensure_listed_once(self._fs, self.dirs)
            failures = self._open_each()
            if len(failures) == len(self.dirs):
                reasons = "; ".join(str(failure) for _, failure in failures)
                raise NoUsableDir(f"log.dirs: {reasons}") from failures[0][1]
            for log_dir, failure in failures:
                log_dir.fail(failure)
            return settle_identities(
                self._fs, self._rng, list(self.online_dirs()), node_id=node_id, fresh_cluster_id=fresh_cluster_id
            )
        except StorageError:
            self._release_locks()
            raise

    def _open_each(self) -> list[tuple[LogDir, StorageFailure]]:
        """Open the directories; give those that cannot be used, with the reasons."""
        failures = []
        for log_dir in self.dirs:
            try:
                log_dir.open()
            except StorageFailure as failure:
                failures.append((log_dir, failure))
            except CorruptCheckpoint as error:
                raise InconsistentDirs(str(error)) from error
        return failures

    def online_dirs(self) -> Iterator[LogDir]:
        """Iterate the directories that are trusted, in configured order."""
        return self._inventory.online_dirs()

    # --- loading: see storage.dirs.loading ---

    def has_logs(self) -> bool:
        """Tell whether there is a log to load. Raises: OSError. Blocking: disk."""
        return any(
            entry.is_dir and is_log_folder(entry.name)
            for log_dir in self.online_dirs()
            for entry in self._fs.list_dir(log_dir.path)
        )

    def load_all(self, config_for: ConfigFor) -> None:
        """Load every log of every online directory here and now; see finish_loading. Blocking: disk, cpu."""
        for one in self.begin_loading(config_for):
            one.prepare()
        self.ensure_unique()
        for one in self.loading:
            one.begin()
            one.work(one.add_worker())
        self.finish_loading()

    def begin_loading(self, config_for: ConfigFor) -> list[DirLoading]:
        """Return the work for each online directory: prepare all, ensure_unique, begin, work, finish_loading."""

        def open_log(one: LogToLoad, loading: DirLoading, progress: LoadProgress) -> PartitionLog:
            return self._opening.load(one, config_for(one.tp), loading, progress)

        self.loading = [DirLoading(self._fs, log_dir, open_log) for log_dir in self.online_dirs()]
        return self.loading

    def ensure_unique(self) -> None:
        """Make sure that no two folders hold the log of one partition, but those of different topic ids.

        Raises: DuplicateLog. Blocking: reads the id files of partitions that occur twice.
        """
        ensure_unique(self._fs, self.loading)

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
        self._go_on_deleting()
        if any(loading.has_high_recovery_points for loading in self.loading):
            self._inventory.without_failing(self.checkpoint_recovery_points)

    def _take_over(self, loading: DirLoading) -> None:
        for one in loading.logs:
            assert one.log is not None, one.path
            if loading.recovery_points.get(one.tp, 0) > one.log.log_end_offset:
                loading.has_high_recovery_points = True
            if one.is_future:
                self._take_future(FutureLog(self._fs, one.log, loading.log_dir))
            else:
                self._take_current(one.tp, one.log, loading)
        loading.log_dir.note_loaded(DATA_LOGS)
        loading.forget()

    def _go_on_deleting(self) -> None:
        """Let go of what an earlier run has left to be deleted, unless a directory is away.

        A crash in the middle of a swap leaves the log it retired under such a name, and the copy that was to replace it
        may be what is away.
        """
        left = [(loading.log_dir, path) for loading in self.loading for path in loading.deleted_paths]
        if left and any(not log_dir.is_online for log_dir in self.dirs):
            logger.warning("deleting nothing of earlier runs while a log directory is offline folders=%d", len(left))
            return
        for log_dir, path in left:
            self.deleted_logs.schedule(monotonic_ms(self._clock), log_dir, path)

    def _take_current(self, tp: TopicPartition, log: PartitionLog, loading: DirLoading) -> None:
        if tp in self.logs:
            self._inventory.rivals.append((tp, loading.log_dir, log))
            return
        self._inventory.add(tp, log, loading.log_dir)
        # Above the end of a log that lost its tail it would soon cover records that were never cleaned.
        if (offset := loading.cleaner_offsets.get(tp)) is not None and offset <= log.log_end_offset:
            self._inventory.cleaner_offsets[tp] = offset

    def _take_future(self, future: FutureLog) -> None:
        if future.tp in self.futures:
            self._inventory.rival_futures.append(future)
        else:
            self._inventory.futures[future.tp] = future

    def settle_rivals(self, is_current: IsCurrent) -> None:
        """Decide between logs of different topic ids, once the metadata is known. See Settling. Blocking: renames."""
        self._settling.settle_rivals(is_current)

    def settle_futures(self, is_current: IsCurrent, directory_of: DirectoryOf) -> None:
        """Decide what becomes of the copies that moves have left, after all that concerns current logs is settled.

        See Settling. Blocking: renames.
        """
        self._settling.settle_futures(is_current, directory_of)

    # --- create and delete ---

    def prefer(self, tp: TopicPartition, path: str) -> None:
        """Remember a directory for a log that is to be created, in place of an earlier one."""
        self._placement.prefer(tp, path)

    @property
    def preferred(self) -> Mapping[TopicPartition, str]:
        """The directories remembered for logs that are to be created."""
        return self._placement.preferred

    @property
    def cordoned(self) -> frozenset[str]:
        """Paths of the directories that take no new logs; may be replaced at any time."""
        return self._placement.cordoned

    @cordoned.setter
    def cordoned(self, paths: frozenset[str]) -> None:
        self._placement.cordoned = paths

    def ensure_not_elsewhere(self, tp: TopicPartition, directory_id: bytes) -> None:
        """Refuse to begin the log of an older partition anew while its records may lie where they are not served from.

        directory_id is where the metadata says that the log is. Raises: StorageFailure.
        """
        self._placement.ensure_not_elsewhere(tp, directory_id)

    def create(
        self,
        tp: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig,
        *,
        directory_id: bytes = ZERO_UUID,
        on_failure: OnFailure | None = None,
    ) -> PartitionLog:
        """Create the log of a new partition where Placement says; what was preferred for it is forgotten then.

        directory_id is where the metadata wants it, if that is known. A directory that fails on the way goes offline;
        beside the owner of the logs that is left to it by on_failure.
        Raises: StorageFailure when no directory takes it. Blocking: disk; any thread.
        """
        assert tp not in self.logs, tp
        on_failure = on_failure or self.fail_dir
        for log_dir in self._placement.candidates(tp, directory_id):
            path = os.path.join(log_dir.path, partition_dir(tp))
            is_ours = not self._fs.exists(path)
            try:
                log_dir.ensure_present()  # made anew, it would hide that everything in it is gone
                log = self._opening.create(path, tp, config, topic_id)
            except StorageFailure as failure:
                if is_ours:
                    self._undo_creation(path)
                on_failure(log_dir, failure)
                continue
            self._inventory.add(tp, log, log_dir)
            self._placement.preferred.pop(tp, None)
            return log
        raise StorageFailure(f"no log directory can take {tp}")

    def _undo_creation(self, path: str) -> None:
        """Remove what there is of a log that could not be made, as far as the disk still does that."""
        with suppress(OSError):
            if self._fs.exists(path):
                remove_log_files(self._fs, path)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Give each log's directory and the bytes of its segments, current and future ones; others may come and go."""
        return self._inventory.sizes()

    def dir_of(self, tp: TopicPartition) -> LogDir | None:
        """Return the directory that holds the current log of a partition."""
        return self._inventory.dir_of.get(tp)

    def delete(self, tp: TopicPartition, *, delay_ms: int = 0) -> None:
        """Stop serving a log: rename its directory now, unlink the files after the delay; its future log goes too.

        The new name is durable after the next purge of `deleted_logs`; if the machine dies before, the next start finds
        a log that is nobody's. Readers with pinned regions go on. Raises: StorageFailure. Blocking: renames.
        """
        taken = self._inventory.take(tp)
        try:
            if taken is not None:
                self._renames.delete(*taken, delay_ms)
        finally:
            self.drop_future(tp, delay_ms=delay_ms)

    def set_stray(self, tp: TopicPartition) -> None:
        """Keep the log of a partition that the metadata does not know aside; its files stay for an operator."""
        taken = self._inventory.take(tp)
        if taken is not None:
            self._renames.set_stray(*taken)

    # --- moves between directories: see storage.dirs.moving ---

    def create_future(self, tp: TopicPartition, log_dir: LogDir, config: LogConfig) -> FutureLog:
        """Begin a copy of the current log in another directory. See Moving. Blocking: disk; any thread."""
        future = self._moving.create_future(tp, log_dir, config)
        self._placement.preferred.pop(tp, None)
        return future

    def drop_future(self, tp: TopicPartition, *, delay_ms: int = 0) -> None:
        """Give the copy up, if there is one. See Moving. Raises: StorageFailure. Blocking: one rename."""
        self._moving.drop_future(tp, delay_ms=delay_ms)

    def retire(self, tp: TopicPartition) -> Retired:
        """Take the partition's name from its current log. See Moving. Raises: StorageFailure. Blocking: one rename."""
        return self._moving.retire(tp)

    def restore(self, tp: TopicPartition, retired: Retired) -> None:
        """Take a `retire` back. See Moving. Raises: StorageFailure. Blocking: one rename."""
        self._moving.restore(tp, retired)

    def promote(self, tp: TopicPartition, retired: Retired) -> PartitionLog:
        """Let the copy be the current log; return it. See Moving. Raises: StorageFailure. Blocking: one rename."""
        return self._moving.promote(tp, retired)

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

    # --- checkpoints: see storage.dirs.checkpoints ---

    def checkpoint_recovery_points(self) -> None:
        """Write how far each log is durable; everything below is on disk before this is called."""
        self._checkpoints.recovery_points()

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks."""
        self._checkpoints.high_watermarks()

    def checkpoint_log_starts(self) -> None:
        """Write the log starts that the segment names do not tell."""
        self._checkpoints.log_starts()

    def checkpoint_cleaner_offsets(self) -> None:
        """Write how far each log is clean; logs that are gone lose their line."""
        self._checkpoints.cleaner_offsets()

    def cleaner_checkpoint(self, tp: TopicPartition) -> int | None:
        """Return the offset below which a log was cleaned, None when it never was."""
        return self._inventory.cleaner_offsets.get(tp)

    def set_cleaner_checkpoint(self, tp: TopicPartition, offset: int) -> None:
        """Note how far a log is clean; checkpoint_cleaner_offsets makes it last."""
        if tp in self.logs:
            self._inventory.cleaner_offsets[tp] = offset

    # --- failure and stop ---

    def fail_dir(self, log_dir: LogDir, failure: StorageFailure) -> list[TopicPartition]:
        """Put a directory offline and let go of its logs; return the partitions whose current log went with it."""
        return self._inventory.fail_dir(log_dir, failure)

    def dir_at(self, path: str | None) -> LogDir | None:
        """Return the directory that a path, as carried by StorageFailure, lies in."""
        return self._inventory.dir_at(path)

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Stop here and now; see finish_closing. With clean=False nothing is written. Blocking: disk."""
        if not clean:
            for log in [*self.logs.values(), *(future.log for future in self.futures.values())]:
                log.fail()
            self._release_locks()
            return
        closing = self.begin_closing()
        for one in closing:
            one.work()
        self.finish_closing(closing, broker_epoch=broker_epoch)

    def begin_closing(self) -> list[DirClosing]:
        """Return the work for each online directory, to be done by any threads before finish_closing."""
        self.open_files.release_none()
        return [DirClosing(log_dir, self._inventory.all_in(log_dir)) for log_dir in self.online_dirs()]

    def finish_closing(self, closing: Iterable[DirClosing], *, broker_epoch: int = -1) -> None:
        """Write what makes the marker true, in this order: recovery points, log starts, high watermarks, marker.

        A directory with a log that cannot be closed gets no marker. Blocking: disk.
        """
        for one in closing:
            if one.failure is not None:
                self.fail_dir(one.log_dir, one.failure)
        for write in (self.checkpoint_recovery_points, self.checkpoint_log_starts, self.checkpoint_high_watermarks):
            self._inventory.without_failing(write)
        for log_dir in list(self.online_dirs()):
            try:
                log_dir.mark_clean(broker_epoch)
            except StorageFailure as failure:
                self.fail_dir(log_dir, failure)
        self._release_locks()

    def _release_locks(self) -> None:
        for log_dir in self.dirs:
            log_dir.release()

    def __repr__(self) -> str:
        return f"LogManager({self.dirs}, logs={len(self.logs)}, futures={len(self.futures)})"


def normal_path(path: str) -> str:
    """Return the one spelling of a directory that is compared and shown: absolute, no trailing slash."""
    return os.path.abspath(path)
