"""What the broker exports: which of its parts each row of the metrics catalog is read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.api.fetch_sessions import FetchSessions
from broker.lifecycle import Lifecycle
from broker.metrics import catalog
from broker.metrics.collectors import Sample, Source, single
from broker.net.listener import Listeners
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from storage.dirs.log_dir import LogDir
from storage.log.partition_log import PartitionLog
from storage.log.retention import Reason
from storage.stats import StorageStats


class Watched(NamedTuple):
    """The parts that are read at a scrape."""

    phase: Lifecycle
    connections: Listeners
    partitions: PartitionManager
    sessions: FetchSessions
    log_dirs: Sequence[LogDir]
    storage: StorageStats


_STATES = {"running": 3, "log recovery": 2}
_STARTING, _STOPPING = 1, 6


def broker_state(phase: str) -> int:
    """Give the number Kafka uses for where the broker is."""
    return _STATES.get(phase, _STOPPING if phase.startswith("stop") else _STARTING)


def broker_sources(
    watched: Watched,
    groups_by_state: Callable[[], Mapping[str, int]],
    recovery_seconds: Callable[[], float],
    retention_seconds: Callable[[], float],
) -> Iterator[Source]:
    """Yield a source for every row that does not count requests."""
    partitions, sessions, connections = watched.partitions, watched.sessions, watched.connections
    yield single(catalog.BROKER_STATE, lambda: broker_state(watched.phase.current))
    yield single(catalog.CONNECTIONS, lambda: connections.connection_count)
    yield single(catalog.CONNECTIONS_ACCEPTED, lambda: connections.accepted_count)
    yield single(catalog.PARTITIONS, lambda: len(partitions))
    yield single(catalog.LEADERS, lambda: sum(partition.is_leader for partition in partitions))
    yield single(catalog.OFFLINE_REPLICAS, lambda: partitions.offline_count)
    yield single(catalog.FETCH_SESSIONS, lambda: len(sessions))
    yield single(catalog.FETCH_SESSION_PARTITIONS, lambda: sessions.partition_count)
    yield single(catalog.FETCH_SESSION_EVICTIONS, lambda: sessions.evicted_count)
    yield single(catalog.RECOVERY_SECONDS, recovery_seconds)
    yield single(catalog.RETENTION_SECONDS, retention_seconds)
    yield Source(catalog.DELETED_SEGMENTS, lambda: _per_reason(watched.storage.deleted_segments))
    yield Source(catalog.DELETED_BYTES, lambda: _per_reason(watched.storage.deleted_bytes))
    yield Source(catalog.LOGS_TO_LOAD, lambda: (((one.path,), one.logs_to_load) for one in watched.log_dirs))
    yield Source(catalog.GROUPS, lambda: (((state,), count) for state, count in groups_by_state().items()))
    yield Source(catalog.BYTES_IN, lambda: _per_topic(partitions, lambda one: one.appended_bytes))
    yield Source(catalog.MESSAGES_IN, lambda: _per_topic(partitions, lambda one: one.appended_records))
    yield Source(catalog.LOG_SIZE, lambda: _per_log(partitions, lambda log: log.size_bytes))
    yield Source(catalog.LOG_SEGMENTS, lambda: _per_log(partitions, lambda log: log.segment_count))
    yield Source(catalog.LOG_START_OFFSET, lambda: _per_log(partitions, lambda log: log.log_start_offset))
    yield Source(catalog.LOG_END_OFFSET, lambda: _per_log(partitions, lambda log: log.log_end_offset))


def _per_reason(counts: Mapping[str, int]) -> Iterable[Sample]:
    return (((reason.value,), counts.get(reason.value, 0)) for reason in Reason)


def _per_topic(partitions: Iterable[Partition], value: Callable[[Partition], int]) -> Iterable[Sample]:
    totals: dict[str, int] = {}
    for partition in partitions:
        totals[partition.tp[0]] = totals.get(partition.tp[0], 0) + value(partition)
    return (((topic,), total) for topic, total in totals.items())


def _per_log(partitions: Iterable[Partition], value: Callable[[PartitionLog], int]) -> Iterable[Sample]:
    return (((partition.tp[0], str(partition.tp[1])), value(partition.log)) for partition in partitions)
