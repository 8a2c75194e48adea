"""What the broker exports: which of its parts each row of the metrics catalog is read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from broker.api.fetch_sessions import FetchSessions
from broker.background.cleaner.run import Cleaner
from broker.background.dir_watch import DirWatch
from broker.background.disk_work import DiskWork
from broker.background.moves.move import Move
from broker.background.moves.run import Moves
from broker.background.recovery import Recovery
from broker.coordinators import Coordinators
from broker.exported_coordinators import coordinator_sources
from broker.lifecycle import Lifecycle
from broker.live_quotas import LiveQuotas
from broker.metrics.catalog import jmx, own
from broker.metrics.sources import HistogramSource, Sample, Source, single, single_histogram
from broker.net.listener import Listeners
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.quota.kind import Use
from broker.telemetry.store import ClientMetricsStore
from storage.dirs.loading import DirLoading
from storage.dirs.manager import LogManager
from storage.env.fs import Space
from storage.log.partition_log import PartitionLog
from storage.log.retention import Reason
from storage.stats import StorageStats


class Watched(NamedTuple):
    """The parts that are read at a scrape."""

    phase: Lifecycle
    connections: Listeners
    partitions: PartitionManager
    sessions: FetchSessions
    recovery: Recovery
    disk_work: DiskWork
    storage: StorageStats
    cleaner: Cleaner
    moves: Moves
    logs: LogManager
    dir_watch: DirWatch
    client_metrics: ClientMetricsStore
    quotas: LiveQuotas


MAX_QUOTA_SERIES = 200
"""Of each kind of quota; client ids are what clients make up."""

_STATES = {"running": 3, "log recovery": 2}
_STARTING, _STOPPING = 1, 6


def broker_state(phase: str) -> int:
    """Give the number Kafka uses for where the broker is."""
    return _STATES.get(phase, _STOPPING if phase.startswith("stop") else _STARTING)


def broker_sources(
    watched: Watched,
    coordinators: Callable[[], Coordinators | None],
    retention_seconds: Callable[[], float],
) -> Iterator[Source | HistogramSource]:
    """Yield a source for every row that does not count requests."""
    partitions, sessions, connections = watched.partitions, watched.sessions, watched.connections
    yield single(jmx.BROKER_STATE, lambda: broker_state(watched.phase.current))
    yield single(jmx.CONNECTIONS, lambda: connections.connection_count)
    yield single(jmx.CONNECTIONS_ACCEPTED, lambda: connections.accepted_count)
    yield single(jmx.PARTITIONS, lambda: len(partitions))
    yield single(jmx.LEADERS, lambda: sum(partition.is_leader for partition in partitions))
    yield single(jmx.OFFLINE_REPLICAS, lambda: partitions.offline_count)
    yield single(jmx.FETCH_SESSIONS, lambda: len(sessions))
    yield single(jmx.FETCH_SESSION_PARTITIONS, lambda: sessions.partition_count)
    yield single(jmx.FETCH_SESSION_EVICTIONS, lambda: sessions.evicted_count)
    yield single(own.RETENTION_SECONDS, retention_seconds)
    yield Source(own.DELETED_SEGMENTS, lambda: _per_reason(watched.storage.deleted_segments))
    yield Source(own.DELETED_BYTES, lambda: _per_reason(watched.storage.deleted_bytes))
    yield from _disk_sources(watched.disk_work)
    yield from _client_sources(watched.client_metrics)
    recovery = watched.recovery
    yield single(own.RECOVERY_SECONDS, lambda: recovery.seconds)
    yield Source(jmx.LOGS_TO_LOAD, lambda: _per_dir(recovery, lambda one: one.logs_left))
    yield Source(jmx.SEGMENTS_TO_RECOVER, lambda: _per_recovery_thread(recovery))
    yield Source(own.RECOVERY_BYTES, lambda: _per_dir(recovery, lambda one: one.scanned_bytes))
    yield Source(own.RECOVERY_BYTES_EXPECTED, lambda: _per_dir(recovery, lambda one: one.bytes_to_scan))
    yield Source(own.RECOVERY_CUT_BYTES, lambda: _per_dir(recovery, lambda one: one.cut_bytes))
    yield from coordinator_sources(coordinators)
    yield Source(jmx.BYTES_IN, lambda: _per_topic(partitions, lambda one: one.appended_bytes))
    yield Source(jmx.MESSAGES_IN, lambda: _per_topic(partitions, lambda one: one.appended_records))
    yield Source(jmx.LOG_SIZE, lambda: _per_log(partitions, lambda log: log.size_bytes))
    yield Source(jmx.LOG_SEGMENTS, lambda: _per_log(partitions, lambda log: log.segment_count))
    yield Source(jmx.LOG_START_OFFSET, lambda: _per_log(partitions, lambda log: log.log_start_offset))
    yield Source(jmx.LOG_END_OFFSET, lambda: _per_log(partitions, lambda log: log.log_end_offset))
    yield from _dir_sources(watched.logs, watched.dir_watch)
    yield from _cleaner_sources(watched.cleaner)
    yield from _move_sources(watched.moves)
    yield from _quota_sources(watched.quotas)


def _dir_sources(logs: LogManager, watch: DirWatch) -> Iterator[Source]:
    def per_online(values: Mapping[str, int]) -> Iterable[Sample]:
        return (((log_dir.path,), values[log_dir.path]) for log_dir in logs.online_dirs())

    yield single(jmx.OFFLINE_DIRS, lambda: sum(not log_dir.is_online for log_dir in logs.dirs))
    yield Source(jmx.DIR_OFFLINE, lambda: (((log_dir.path,), int(not log_dir.is_online)) for log_dir in logs.dirs))
    yield Source(own.DIR_LOGS, lambda: per_online(logs.counts()))
    yield Source(own.DIR_SIZE, lambda: per_online(logs.sizes()))
    yield Source(own.DIR_TOTAL, lambda: _per_space(watch, lambda space: space.total_bytes))
    yield Source(own.DIR_USABLE, lambda: _per_space(watch, lambda space: space.usable_bytes))


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


def _cleaner_sources(cleaner: Cleaner) -> Iterator[Source]:
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
    yield single(own.CLEANER_WAITING, lambda: cleaner.waiting_count)
    yield single(own.CLEANER_OLDEST_WAITING, lambda: cleaner.oldest_waiting_seconds)
    yield single(own.CLEANER_PASSES, lambda: stats.passes)
    yield single(own.CLEANER_FAILURES, lambda: stats.failures)
    yield single(own.CLEANER_ABORTED, lambda: stats.aborted)
    yield single(own.CLEANER_READ_BYTES, lambda: stats.read_bytes)
    yield single(own.CLEANER_WRITTEN_BYTES, lambda: stats.written_bytes)
    yield single(own.CLEANER_REMOVED_RECORDS, lambda: stats.removed_records)
    yield single(own.CLEANER_SECONDS, lambda: stats.seconds)


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


def _disk_sources(work: DiskWork) -> Iterator[Source | HistogramSource]:
    writeback, page_cache = work.writeback, work.page_cache
    yield single_histogram(jmx.FLUSH_SECONDS, work.flushes.seconds)
    yield single_histogram(own.DIRECT_WRITE_SECONDS, work.direct_writes.seconds)
    yield single_histogram(own.WRITEBACK_SECONDS, writeback.seconds)
    yield single(own.WRITEBACKS_RUNNING, lambda: writeback.running_count)
    yield single(own.WRITEBACK_WAITS, lambda: writeback.waits)
    yield single(own.WRITEBACK_WAIT_SECONDS, lambda: writeback.wait_seconds)
    yield single(own.PAGE_CACHE_BYTES, lambda: page_cache.size_bytes)
    yield single(own.PAGE_CACHE_DROPPED, lambda: page_cache.dropped_bytes)


def _client_sources(store: ClientMetricsStore) -> Iterator[Source]:
    yield Source(own.CLIENT_METRIC, lambda: ((sample[:4], sample.value) for sample in store.samples()))
    yield single(own.CLIENT_METRICS_CLIENTS, lambda: len(store))
    yield single(own.CLIENT_METRICS_PUSHES, lambda: store.push_count)
    yield single(own.CLIENT_METRICS_DROPPED, lambda: store.dropped_count)


def _quota_sources(quotas: LiveQuotas) -> Iterator[Source]:
    clients, connections = quotas.clients, quotas.connections

    def per_use(value: Callable[[Use[Any], int], float]) -> Iterable[Sample]:
        now_ms = clients.now_ms()
        for kind in clients.kinds:
            for sharers, use in kind.most_throttled(MAX_QUOTA_SERIES):
                yield (kind.name, sharers.user, sharers.client_id), value(use, now_ms)

    yield Source(own.QUOTA_LEVEL, lambda: per_use(lambda use, now_ms: use.measure.level(use.limit, now_ms)))
    yield Source(own.QUOTA_LIMIT, lambda: per_use(lambda use, _: use.limit))
    yield Source(own.QUOTA_THROTTLED, lambda: per_use(lambda use, _: use.throttled_count))
    yield Source(own.QUOTA_THROTTLE_SECONDS, lambda: per_use(lambda use, _: use.throttled_ms / 1000))
    yield Source(own.QUOTA_USES, lambda: (((kind.name,), kind.use_count) for kind in clients.kinds))
    yield Source(
        own.CONNECTION_THROTTLE_SECONDS,
        lambda: ((labels, throttled_ms / 1000) for labels, throttled_ms in connections.throttled_ms.items()),
    )


def _per_topic(partitions: Iterable[Partition], value: Callable[[Partition], int]) -> Iterable[Sample]:
    totals: dict[str, int] = {}
    for partition in partitions:
        totals[partition.tp[0]] = totals.get(partition.tp[0], 0) + value(partition)
    return (((topic,), total) for topic, total in totals.items())


def _per_log(partitions: Iterable[Partition], value: Callable[[PartitionLog], int]) -> Iterable[Sample]:
    return (((partition.tp[0], str(partition.tp[1])), value(partition.log)) for partition in partitions)
