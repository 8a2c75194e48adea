"""Brokers, topics and partitions under the names of kafka_exporter: what a client's metadata and offsets would say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker.exported.coordinators import AllCoordinators
from broker.metadata.image import NO_LEADER, ClusterImage, TopicImage
from broker.metrics.catalog import kafka_exporter as rows
from broker.metrics.catalog.row import Metric
from broker.metrics.sources import AnySource, Line, Sample, Source, Table
from broker.partition.manager import PartitionManager


def topic_sources(coordinators: AllCoordinators, partitions: PartitionManager) -> Iterator[AnySource]:
    """Yield a source for every row that a client could read from metadata and offsets."""

    def of_cluster(metric: Metric, samples: Callable[[ClusterImage], Iterable[Sample]]) -> Source:
        return Source(metric, lambda: () if (found := coordinators()) is None else samples(found.image))

    yield of_cluster(rows.BROKERS, lambda image: (((), len(image.active_brokers())),))
    yield of_cluster(rows.BROKER_INFO, _addresses)
    yield of_cluster(
        rows.TOPIC_PARTITIONS,
        lambda image: (((topic.name,), len(topic.partitions)) for topic in image.topics_by_name.values()),
    )

    def lines() -> Iterator[Line]:
        found = coordinators()
        if found is not None:
            for topic in found.image.topics_by_name.values():
                yield from _partitions(topic, partitions)

    yield Table(
        (
            rows.CURRENT_OFFSET,
            rows.OLDEST_OFFSET,
            rows.LEADER,
            rows.REPLICAS,
            rows.IN_SYNC_REPLICAS,
            rows.LEADER_IS_PREFERRED,
            rows.UNDER_REPLICATED,
        ),
        lines,
    )


def _addresses(image: ClusterImage) -> Iterator[Sample]:
    for broker in image.active_brokers():
        if broker.endpoints:
            yield (str(broker.broker_id), f"{broker.endpoints[0].host}:{broker.endpoints[0].port}"), 1


def _partitions(topic: TopicImage, partitions: PartitionManager) -> Iterator[Line]:
    find, name = partitions.find, topic.name
    for number, (leader, _, _, replicas, isr, *_) in enumerate(topic.partitions):
        partition = find((name, number))
        log = partition.log if partition is not None and partition.is_leader else None
        yield (
            (name, str(number)),
            (
                None if log is None else log.released_end_offset,
                None if log is None else log.log_start_offset,
                None if leader == NO_LEADER else leader,
                len(replicas),
                len(isr),
                int(leader == replicas[0]),
                int(len(isr) < len(replicas)),
            ),
        )
