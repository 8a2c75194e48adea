"""What partitions and their logs export: their numbers by topic, and by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.metrics.catalog import jmx
from broker.metrics.instruments import TopicStats
from broker.metrics.sources import ITEMS_PER_BREATH, AnySource, Line, Table, single
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.partition.traffic import Traffic


def partition_sources(partitions: PartitionManager) -> Iterator[AnySource]:
    """Yield a source for every row about topics and partitions."""
    yield single(jmx.PARTITIONS, lambda: len(partitions))
    yield Table(
        (
            jmx.LEADERS,
            jmx.UNDER_REPLICATED_PARTITIONS,
            jmx.UNDER_MIN_ISR_PARTITIONS,
            jmx.AT_MIN_ISR_PARTITIONS,
        ),
        lambda: _counts(partitions),
    )
    yield single(jmx.OFFLINE_REPLICAS, lambda: partitions.offline_count)
    yield from _topic_sources(partitions.traffic)
    yield Table(
        (jmx.LOG_SIZE, jmx.LOG_SEGMENTS, jmx.LOG_START_OFFSET, jmx.LOG_END_OFFSET), lambda: _log_lines(partitions)
    )
    yield Table(
        (
            *(jmx.REPLICAS, jmx.IN_SYNC_REPLICAS, jmx.UNDER_REPLICATED, jmx.UNDER_MIN_ISR, jmx.AT_MIN_ISR),
            jmx.LAST_STABLE_OFFSET_LAG,
        ),
        lambda: _replica_lines(partitions),
    )


def _topic_sources(traffic: Traffic) -> Iterator[AnySource]:
    invalid = traffic.invalid_records
    yield Table(
        (
            *(jmx.BYTES_IN, jmx.MESSAGES_IN, jmx.BYTES_OUT, jmx.BYTES_REJECTED),
            *(jmx.PRODUCE_REQUESTS, jmx.FAILED_PRODUCE_REQUESTS, jmx.FETCH_REQUESTS, jmx.FAILED_FETCH_REQUESTS),
        ),
        lambda: _topic_lines(traffic),
    )
    for metric in (
        *(jmx.PRODUCE_CONVERSIONS, jmx.FETCH_CONVERSIONS, jmx.REPLICATION_BYTES_IN, jmx.REPLICATION_BYTES_OUT),
    ):
        yield single(metric, lambda: 0)
    yield single(jmx.INVALID_MAGIC, lambda: invalid.wrong_magic)
    yield single(jmx.INVALID_CRC, lambda: invalid.wrong_checksum)
    yield single(jmx.INVALID_OFFSETS, lambda: invalid.wrong_offsets)
    yield single(jmx.MISSING_KEYS, lambda: invalid.missing_key)


def _topic_lines(traffic: Traffic) -> Iterable[Line]:
    yield (), _numbers(traffic.total())
    for topic, stats in tuple(traffic.topics.items()):
        yield (topic,), _numbers(stats)


def _numbers(stats: TopicStats) -> tuple[int, ...]:
    return (
        *(stats.bytes_in, stats.messages_in, stats.bytes_out, stats.bytes_rejected),
        *(stats.produce_requests, stats.failed_produce_requests),
        *(stats.fetch_requests, stats.failed_fetch_requests),
    )


def _log_lines(partitions: PartitionManager) -> Iterable[Line]:
    for partition in tuple(partitions):
        (topic, number), log = partition.tp, partition.log
        yield (
            (topic, str(number)),
            (log.size_bytes, log.segment_count, log.log_start_offset, log.log_end_offset),
        )


def _replica_lines(partitions: PartitionManager) -> Iterable[Line]:
    for partition in tuple(partitions):
        if partition.is_leader:
            (topic, number), offsets = partition.tp, partition.log.offsets
            yield (
                (topic, str(number)),
                (*_replicas(partition), offsets.high_watermark - offsets.last_stable_offset),
            )


def _replicas(partition: Partition) -> tuple[int, int, int, int, int]:
    """Return replicas, those in sync, whether these are fewer, fewer than must be, just as many as must be."""
    replicas, in_sync = partition.replica_count, len(partition.isr)
    required = min(partition.log.config.min_insync_replicas, replicas)
    return replicas, in_sync, int(in_sync < replicas), int(in_sync < required), int(in_sync == required)


def _counts(partitions: PartitionManager) -> Iterable[Line | None]:
    leaders = under_replicated = under_required = at_required = 0
    for number, partition in enumerate(tuple(partitions)):
        if not number % ITEMS_PER_BREATH:
            yield None
        if partition.is_leader:
            _, _, is_missing, is_under, is_at = _replicas(partition)
            leaders += 1
            under_replicated += is_missing
            under_required += is_under
            at_required += is_at
    yield (), (leaders, under_replicated, under_required, at_required)
