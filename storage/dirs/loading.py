"""Loading the logs of a directory, cut into pieces that any number of threads may work on.

1. `prepare`, one call a directory: looks for the clean-shutdown marker, reads the checkpoints, lists the logs.
2. `begin`, when nothing speaks against the start any more: writes the identity and takes the marker.
3. `work`, called by as many threads at once as there are `workers`: each takes the next log until none is left. The
   queue, a list of results by position and a count are all they share, and each operation on these is atomic.
4. LogManager.finish_loading, on the side that owns the logs: takes the results in the order of the listing, so what
   comes out does not depend on who was faster.

Storage chooses no threads: LogManager.load_all does it all in the caller's, the broker in its pools.
An I/O error stops the directory, whatever cannot be made sense of the start. Of several the first in the order of the
listing is reported; every log before it has been loaded by then.
"""

from __future__ import annotations

import logging
import os.path
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from storage.dirs.log_dir import DATA_LOGS, LogDir
from storage.env.fs import FileSystem
from storage.errors import StorageError, StorageFailure
from storage.log.partition_log import PartitionLog
from storage.segment.names import (
    CLEANER_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE_DIR,
    STRAY_DIR_SUFFIX,
    parse_partition_dir,
    parse_segment_file,
)
from storage.stats import LoadProgress
from storage.types import TopicPartition

CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_CHECKPOINT)

logger = logging.getLogger(__name__)


class LogToLoad:
    """One log of a directory: where it is and what the checkpoints say; later what became of it."""

    __slots__ = ("bytes_to_scan", "failure", "is_future", "log", "path", "tp")

    def __init__(self, path: str, tp: TopicPartition, *, is_future: bool) -> None:
        self.path = path
        self.tp = tp
        self.is_future = is_future
        self.bytes_to_scan = 0  # by recovery, as far as the listing tells; set by prepare
        # Set by whoever loads it.
        self.log: PartitionLog | None = None
        self.failure: StorageError | None = None


Open = Callable[[LogToLoad, "DirLoading", LoadProgress], PartitionLog]


class DirLoading:
    """The loading of one directory, and how far it has come; readable by anybody at any time."""

    def __init__(self, fs: FileSystem, log_dir: LogDir, open_log: Open) -> None:
        self._fs = fs
        self._open_log = open_log
        self.log_dir = log_dir
        # Set by prepare.
        self.is_clean = False
        self.failure: StorageFailure | None = None  # of the directory as a whole
        self.logs: Sequence[LogToLoad] = ()
        self.log_count = 0
        self.bytes_to_scan = 0
        self.deleted_paths: list[str] = []  # of logs whose deletion was not finished
        self.recovery_points: Mapping[TopicPartition, int] = {}
        self.log_starts: Mapping[TopicPartition, int] = {}
        self.high_watermarks: Mapping[TopicPartition, int] = {}
        self.cleaner_offsets: Mapping[TopicPartition, int] = {}
        self.has_high_recovery_points = False  # the checkpoint has more than a log holds; set by LogManager
        # Changed by work.
        self._queue: deque[LogToLoad] = deque()
        self.workers: list[LoadProgress] = []  # one for each thread; a thread writes only its own
        self.is_stopped = False  # set by the first failure, and by whoever gives the start up

    @property
    def logs_left(self) -> int:
        """Return how many logs are not loaded yet."""
        return len(self._queue) + sum(worker.is_busy for worker in self.workers)

    @property
    def scanned_bytes(self) -> int:
        """Return how many bytes recovery has read."""
        return sum(worker.scanned_bytes for worker in self.workers)

    @property
    def cut_bytes(self) -> int:
        """Return how many bytes recovery has cut off."""
        return sum(worker.cut_bytes for worker in self.workers)

    # --- before ---

    def prepare(self) -> None:
        """Find out what there is to load, changing nothing; a failure is noted. Blocking: disk; any thread."""
        log_dir = self.log_dir
        try:
            self.is_clean = log_dir.look_whether_clean()
            self.recovery_points, self.log_starts, self.high_watermarks, self.cleaner_offsets = map(
                log_dir.read_checkpoint, CHECKPOINTS
            )
            self.logs = self._find_logs()
            if not self.is_clean:
                for one in self.logs:
                    one.bytes_to_scan = self._unflushed_bytes(one)
        except (StorageFailure, OSError) as error:
            self.failure = as_failure("load", error, log_dir.path)
            return
        self.log_count = len(self.logs)
        self.bytes_to_scan = sum(one.bytes_to_scan for one in self.logs)
        self._queue.extend(self.logs)

    def begin(self) -> None:
        """Make the changes that come before those of the logs; a failure is noted. Blocking: disk; any thread."""
        if self.failure is not None:
            return
        try:
            self.log_dir.write_identity()
            self.log_dir.begin_loading(DATA_LOGS)
            self.log_dir.remove_stale_tmp_files(CHECKPOINTS)
        except (StorageFailure, OSError) as error:
            self.failure = as_failure("load", error, self.log_dir.path)
            self.is_stopped = True

    def leave_out(self, one: LogToLoad) -> None:
        """Do not load a log, but let its files go; before the work begins."""
        logger.warning("removing a log that was never used beside another one partition=%s dir=%s", one.tp, one.path)
        self.logs = [log for log in self.logs if log is not one]
        self._queue.remove(one)
        self.log_count -= 1
        self.deleted_paths.append(one.path)

    def _find_logs(self) -> list[LogToLoad]:
        """List the current and future logs of the directory; report everything that is not ours."""
        names = [entry.name for entry in self._fs.list_dir(self.log_dir.path) if entry.is_dir]
        return [one for name in names if name != REMOTE_INDEX_CACHE_DIR and (one := self._classify(name)) is not None]

    def _classify(self, name: str) -> LogToLoad | None:
        path = os.path.join(self.log_dir.path, name)
        parsed = parse_partition_dir(name)
        if parsed is None:
            logger.warning("ignoring a folder that is no partition dir=%s", path)
        elif parsed.marker == DELETE_DIR_SUFFIX:
            self.deleted_paths.append(path)
        elif parsed.marker == STRAY_DIR_SUFFIX:
            logger.warning("not serving a log kept aside dir=%s", path)
        elif parsed.tp is not None and is_log_folder(name):
            return LogToLoad(path, parsed.tp, is_future=parsed.marker == FUTURE_DIR_SUFFIX)
        return None

    def _unflushed_bytes(self, one: LogToLoad) -> int:
        """Add up the segments that recovery will walk: from the one with the recovery point on."""
        segments = []
        for entry in self._fs.list_dir(one.path):
            parsed = parse_segment_file(entry.name)
            if parsed is not None and parsed.kind == LOG_SUFFIX and not parsed.marker:
                segments.append((parsed.base_offset, entry.size_bytes))
        recovery_point = self.recovery_points.get(one.tp, 0)
        first = max((base for base, _ in segments if base <= recovery_point), default=0)
        return sum(size for base, size in segments if base >= first)

    # --- the work ---

    def work(self, progress: LoadProgress) -> None:
        """Load one log after the other until none is left. Blocking: disk, cpu; any thread, several at once."""
        while not self.is_stopped:
            progress.is_busy = True  # before the queue gets shorter, so that what is left is never counted short
            try:
                one = self._queue.popleft()
            except IndexError:
                break
            try:
                one.log = self._open_log(one, self, progress)
            except (StorageError, OSError) as error:
                one.failure = error if isinstance(error, StorageError) else as_failure("load", error, one.path)
                self.is_stopped = True
            progress.segments_left = 0
        progress.is_busy = False

    def add_worker(self) -> LoadProgress:
        """Return the progress of one more thread, to be handed to work."""
        self.workers.append(LoadProgress())
        return self.workers[-1]

    def stop(self) -> None:
        """Give up: no further log is begun."""
        self.is_stopped = True

    def forget(self) -> None:
        """Let go of the logs once they are taken over; the numbers stay."""
        self.logs = ()

    def first_failure(self) -> StorageError | None:
        """Return what ended the loading, if anything did."""
        if self.failure is not None:
            return self.failure
        return next((one.failure for one in self.logs if one.failure is not None), None)


def is_log_folder(name: str) -> bool:
    """Tell whether a folder of that name is loaded, as the current or the future log of a partition."""
    parsed = parse_partition_dir(name)
    if parsed is None or parsed.tp is None or parsed.marker in (DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX):
        return False
    return parsed.tp.topic != CLUSTER_METADATA_TOPIC


def as_failure(doing: str, error: StorageFailure | OSError, path: str) -> StorageFailure:
    """Tie an error of the operating system to the path whose directory it puts offline."""
    return error if isinstance(error, StorageFailure) else StorageFailure(f"cannot {doing} {path}: {error}", path)
