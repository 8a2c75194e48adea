"""What the controller exports: the cluster as the metadata have it. One broker: much of it is always 0, and said so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.exported.coordinators import AllCoordinators
from broker.metadata.image import NO_LEADER, ClusterImage
from broker.metrics.catalog import jmx
from broker.metrics.sources import AnySource, Line, Source, Table, single

ALWAYS_0 = (
    *(jmx.UNCLEAN_ELECTIONS, jmx.METADATA_ERRORS, jmx.ISR_SHRINKS, jmx.ISR_EXPANDS, jmx.FAILED_ISR_UPDATES),
    *(jmx.REASSIGNING_PARTITIONS,),
)
TOPICS_PER_BREATH = 16


def controller_sources(coordinators: AllCoordinators) -> Iterator[AnySource]:
    """Yield a source for every row about the cluster's metadata."""

    def image() -> ClusterImage | None:
        found = coordinators()
        return None if found is None else found.image

    def brokers() -> Iterable[Line]:
        if (found := image()) is not None:
            active = len(found.active_brokers())
            yield (), (1, active, len(found.brokers) - active, len(found.topics_by_name))

    def partitions() -> Iterable[Line | None]:
        return () if (found := image()) is None else _partition_counts(found)

    yield Table((jmx.ACTIVE_CONTROLLERS, jmx.ACTIVE_BROKERS, jmx.FENCED_BROKERS, jmx.TOPICS), brokers)
    yield Table((jmx.ALL_PARTITIONS, jmx.OFFLINE_PARTITIONS, jmx.PREFERRED_IMBALANCE), partitions)
    for metric in ALWAYS_0:
        yield single(metric, lambda: 0)
    yield Source(jmx.CONTROLLER_OFFSET, lambda: (((), found.end_offset - 1),) if (found := image()) else ())


def _partition_counts(image: ClusterImage) -> Iterable[Line | None]:
    count = offline = imbalanced = 0
    for number, topic in enumerate(image.topics_by_name.values()):
        if not number % TOPICS_PER_BREATH:
            yield None
        for partition in topic.partitions:
            count += 1
            offline += partition.leader == NO_LEADER
            imbalanced += partition.leader != partition.replicas[0]
    yield (), (count, offline, imbalanced)
