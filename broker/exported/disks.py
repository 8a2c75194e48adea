"""What the work on log directories exports: room, recovery, retention, cleaning, moves, flushes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from broker.background.cleaner.run import Cleaner
from broker.background.dir_watch import DirWatch
from broker.background.disk_work import DiskWork
from broker.background.moves.move import Move
from broker.background.moves.run import Moves
from broker.background.recovery import Recovery
from broker.exported.parts import Watched
from broker.metrics.catalog import jmx, own
from broker.metrics.sources import (
    ITEMS_PER_BREATH,
    AnySource,
    HistogramSource,
    Line,
    Sample,
    Source,
    Table,
    single,
    single_histogram,
)
from storage.dirs.loading import DirLoading
from storage.dirs.manager import LogManager
from storage.env.fs import Space
from storage.log.partition_log import PartitionLog
from storage.log.retention import Reason


def disk_sources(watched: Watched, retention_seconds: Callable[[], float]) -> Iterator[AnySource]:
    """Yield a source for every row about log directories and the work on them."""
    yield single(own.RETENTION_SECONDS, retention_seconds)
    yield Source(own.DELETED_SEGMENTS, lambda: _per_reason(watched.storage.deleted_segments))
    yield Source(own.DELETED_BYTES, lambda: _per_reason(watched.storage.deleted_bytes))
    yield from _work_sources(watched.disk_work)
    yield HistogramSource(
        own.SYNC_SECONDS,
        lambda: (((directory,), histogram) for directory, histogram in watched.sync_times.by_dir.items()),
    )
    yield from _recovery_sources(watched.recovery)
    yield from _dir_sources(watched.logs, watched.dir_watch)
    yield from _cleaner_sources(watched.cleaner)
    yield from _move_sources(watched.moves)


def _recovery_sources(recovery: Recovery) -> Iterator[Source]:
    yield single(own.RECOVERY_SECONDS, lambda: recovery.seconds)
    yield Source(jmx.LOGS_TO_LOAD, lambda: _per_dir(recovery, lambda one: one.logs_left))
    yield Source(jmx.SEGMENTS_TO_RECOVER, lambda: _per_recovery_thread(recovery))
    yield Source(own.RECOVERY_BYTES, lambda: _per_dir(recovery, lambda one: one.scanned_bytes))
    yield Source(own.RECOVERY_BYTES_EXPECTED, lambda: _per_dir(recovery, lambda one: one.bytes_to_scan))
    yield Source(own.RECOVERY_CUT_BYTES, lambda: _per_dir(recovery, lambda one: one.cut_bytes))


def _dir_sources(logs: LogManager, watch: DirWatch) -> Iterator[AnySource]:
    yield single(jmx.OFFLINE_DIRS, lambda: sum(not log_dir.is_online for log_dir in logs.dirs))
    yield Source(jmx.DIR_OFFLINE, lambda: (((log_dir.path,), int(not log_dir.is_online)) for log_dir in logs.dirs))
    yield Source(
        own.DIR_CORDONED, lambda: (((log_dir.path,), int(log_dir.path in logs.cordoned)) for log_dir in logs.dirs)
    )
    yield Table((own.DIR_LOGS, own.DIR_SIZE), lambda: _dir_lines(logs))
    yield Source(own.DIR_TOTAL, lambda: _per_space(watch, lambda space: space.total_bytes))
    yield Source(own.DIR_USABLE, lambda: _per_space(watch, lambda space: space.usable_bytes))


def _dir_lines(logs: LogManager) -> Iterable[Line | None]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for number, (path, size_bytes) in enumerate(logs.sizes()):
        counts[path] += 1
        sizes[path] += size_bytes
        if not number % ITEMS_PER_BREATH:
            yield None
    for log_dir in logs.online_dirs():
        yield (log_dir.path,), (counts[log_dir.path], sizes[log_dir.path])


def _per_space(watch: DirWatch, value: Callable[[Space], int]) -> Iterable[Sample]:
    return (((log_dir.path,), value(space)) for log_dir, space in watch.spaces.items())


def _move_sources(moves: Moves) -> Iterator[Source]:
    yield single(jmx.MOVES_MAX_LAG, lambda: max((move.lag for move in moves.running()), default=0))
    yield single(jmx.MOVES_FAILING, lambda: moves.failing_count)
    yield single(own.MOVES_RUNNING, lambda: len(moves.running()))
    yield single(own.MOVES_COMPLETED, lambda: moves.completed_count)
    yield single(own.MOVES_COPIED_BYTES, lambda: moves.copied_bytes)
    yield single(own.MOVES_LIMIT, lambda: moves.throttle.limit)
    yield Source(own.MOVE_DONE_BYTES, lambda: _per_move(moves, lambda move, _: move.done_bytes))
    yield Source(own.MOVE_LEFT_BYTES, lambda: _per_move(moves, lambda move, _: move.left_bytes))
    yield Source(own.MOVE_LAG, lambda: _per_move(moves, lambda move, _: move.lag))
    yield Source(own.MOVE_RATE, lambda: _per_move(moves, lambda move, now_ns: move.rate(now_ns)))
    yield Source(own.MOVE_LEFT_SECONDS, lambda: _per_move(moves, lambda move, now_ns: move.left_seconds(now_ns)))


def _per_move(moves: Moves, value: Callable[[Move, int], float | None]) -> Iterable[Sample]:
    now_ns = moves.now_ns()
    for move in moves.running():
        number = value(move, now_ns)
        if number is not None:
            yield (move.tp.topic, str(move.tp.partition), move.source.path, move.destination.path), number


def _cleaner_sources(cleaner: Cleaner) -> Iterator[AnySource]:
    stats = cleaner.stats
    yield single(jmx.CLEANER_DEAD_THREADS, lambda: int(cleaner.is_failing))
    yield single(
        jmx.CLEANER_RECOPY_PERCENT,
        lambda: 100 * stats.last_pass.written_bytes // max(stats.last_pass.copy_read_bytes, 1),
    )
    yield single(jmx.CLEANER_MAX_CLEAN_SECONDS, lambda: int(stats.last_pass.seconds))
    yield single(jmx.CLEANER_BUFFER_UTILIZATION, lambda: round(100 * stats.last_pass.map_utilization))
    yield single(jmx.CLEANER_MAX_DELAY_SECONDS, lambda: stats.max_compaction_delay_ms // 1000)
    yield single(jmx.CLEANER_MAX_DIRTY_PERCENT, lambda: int(100 * stats.max_dirty_ratio))
    yield single(jmx.CLEANER_SINCE_LAST_RUN, lambda: cleaner.since_last_look_ms)
    yield Source(jmx.UNCLEANABLE_PARTITIONS, lambda: _per_uncleanable(cleaner, lambda log: 1))
    yield Source(jmx.UNCLEANABLE_BYTES, lambda: _per_uncleanable(cleaner, lambda log: log.size_bytes))
    yield single(own.CLEANER_RUNNING, lambda: cleaner.running_count)
    yield Table((own.CLEANING_READ_BYTES, own.CLEANING_LEFT_BYTES), lambda: _per_cleaning(cleaner))
    yield single(own.CLEANER_WAITING, lambda: cleaner.waiting_count)
    yield single(own.CLEANER_OLDEST_WAITING, lambda: cleaner.oldest_waiting_seconds)
    yield single(own.CLEANER_PASSES, lambda: stats.passes)
    yield single(own.CLEANER_FAILURES, lambda: stats.failures)
    yield single(own.CLEANER_ABORTED, lambda: stats.aborted)
    yield single(own.CLEANER_READ_BYTES, lambda: stats.read_bytes)
    yield single(own.CLEANER_WRITTEN_BYTES, lambda: stats.written_bytes)
    yield single(own.CLEANER_REMOVED_RECORDS, lambda: stats.removed_records)
    yield single(own.CLEANER_SECONDS, lambda: stats.seconds)


def _per_cleaning(cleaner: Cleaner) -> Iterable[Line]:
    return (((one.tp.topic, str(one.tp.partition)), (one.read_bytes, one.left_bytes)) for one in cleaner.running())


def _per_uncleanable(cleaner: Cleaner, value: Callable[[PartitionLog], int]) -> Iterable[Sample]:
    return (((path,), sum(map(value, logs))) for path, logs in cleaner.uncleanable_by_dir().items())


def _per_reason(counts: Mapping[str, int]) -> Iterable[Sample]:
    return (((reason.value,), counts.get(reason.value, 0)) for reason in Reason)


def _per_dir(recovery: Recovery, value: Callable[[DirLoading], int]) -> Iterable[Sample]:
    return (((one.log_dir.path,), value(one)) for one in recovery.directories)


def _per_recovery_thread(recovery: Recovery) -> Iterable[Sample]:
    return (
        ((one.log_dir.path, str(number)), worker.segments_left)
        for one in recovery.directories
        for number, worker in enumerate(one.workers)
    )


def _work_sources(work: DiskWork) -> Iterator[AnySource]:
    writeback, page_cache = work.writeback, work.page_cache
    yield single_histogram(own.FLUSH_SECONDS, work.flushes.seconds)
    yield single_histogram(own.DIRECT_WRITE_SECONDS, work.direct_writes.seconds)
    yield single_histogram(own.WRITEBACK_SECONDS, writeback.seconds)
    yield single(own.WRITEBACKS_RUNNING, lambda: writeback.running_count)
    yield single(own.WRITEBACK_WAITS, lambda: writeback.waits)
    yield single(own.WRITEBACK_WAIT_SECONDS, lambda: writeback.wait_seconds)
    yield single(own.PAGE_CACHE_BYTES, lambda: page_cache.size_bytes)
    yield single(own.PAGE_CACHE_DROPPED, lambda: page_cache.dropped_bytes)
