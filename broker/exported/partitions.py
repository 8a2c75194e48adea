"""What partitions and their logs export: their numbers by topic, and by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker.metrics.catalog import jmx
from broker.metrics.sources import Sample, Source, single
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from storage.log.partition_log import PartitionLog


def partition_sources(partitions: PartitionManager) -> Iterator[Source]:
    """Yield a source for every row about partitions."""
    yield single(jmx.PARTITIONS, lambda: len(partitions))
    yield single(jmx.LEADERS, lambda: sum(partition.is_leader for partition in partitions))
    yield single(jmx.OFFLINE_REPLICAS, lambda: partitions.offline_count)
    yield Source(jmx.BYTES_IN, lambda: _per_topic(partitions, lambda one: one.appended_bytes))
    yield Source(jmx.MESSAGES_IN, lambda: _per_topic(partitions, lambda one: one.appended_records))
    yield Source(jmx.LOG_SIZE, lambda: _per_log(partitions, lambda log: log.size_bytes))
    yield Source(jmx.LOG_SEGMENTS, lambda: _per_log(partitions, lambda log: log.segment_count))
    yield Source(jmx.LOG_START_OFFSET, lambda: _per_log(partitions, lambda log: log.log_start_offset))
    yield Source(jmx.LOG_END_OFFSET, lambda: _per_log(partitions, lambda log: log.log_end_offset))


def _per_topic(partitions: Iterable[Partition], value: Callable[[Partition], int]) -> Iterable[Sample]:
    totals: dict[str, int] = {}
    for partition in partitions:
        totals[partition.tp[0]] = totals.get(partition.tp[0], 0) + value(partition)
    return (((topic,), total) for topic, total in totals.items())


def _per_log(partitions: Iterable[Partition], value: Callable[[PartitionLog], int]) -> Iterable[Sample]:
    return (((partition.tp[0], str(partition.tp[1])), value(partition.log)) for partition in partitions)
