"""What groups are exported as: their lag under kafka_exporter's names and ours, their states; from the latest look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from broker.lag.snapshot import LagSnapshot
from broker.lag.watch import LagWatch
from broker.metrics.catalog import groups as rows
from broker.metrics.catalog import jmx, kafka_exporter
from broker.metrics.catalog.own import OLDEST_TIMESTAMP
from broker.metrics.catalog.row import Metric
from broker.metrics.sources import AnySource, Labels, Line, Sample, Source, Table

Columns = tuple[Sequence[Labels], *tuple[Sequence[float | None], ...]]


def group_sources(watch: LagWatch) -> Iterator[AnySource]:
    """Yield a source for every row about a group, and for the age of what is kept."""

    def table(columns: Callable[[LagSnapshot], Columns], *metrics: Metric) -> Table:
        def lines() -> Iterable[Line]:
            labels, *numbers = columns(watch.latest)
            return zip(labels, zip(*numbers, strict=True), strict=True)

        return Table(metrics, lines)

    yield table(
        lambda found: (found.partition_labels, found.committed, found.lags, found.seconds),
        kafka_exporter.GROUP_OFFSET,
        kafka_exporter.GROUP_LAG,
        rows.LAG_SECONDS,
    )
    yield table(
        lambda found: (found.topic_labels, found.topic_committed, found.topic_lags),
        kafka_exporter.GROUP_OFFSET_SUM,
        kafka_exporter.GROUP_LAG_SUM,
    )
    yield table(
        lambda found: (
            found.group_labels,
            found.members,
            found.epochs,
            found.max_lags,
            found.max_seconds,
            found.commit_seconds,
        ),
        kafka_exporter.GROUP_MEMBERS,
        rows.EPOCH,
        rows.MAX_LAG,
        rows.MAX_LAG_SECONDS,
        rows.LAST_COMMIT,
    )
    yield Source(jmx.GROUP_COUNT, lambda: watch.latest.counts.items())
    yield Source(jmx.GROUPS, lambda: _per_state(watch.latest.counts))
    yield Source(rows.STATE, lambda: ((labels, 1) for labels in watch.latest.state_labels))
    yield Source(rows.LEFT_OUT, lambda: (((kind,), count) for kind, count in watch.latest.left_out.items()))
    yield table(lambda found: (found.oldest_labels, found.oldest_seconds), OLDEST_TIMESTAMP)


def _per_state(counts: Mapping[tuple[str, str], int]) -> Iterable[Sample]:
    states: Counter[str] = Counter()
    for (_, state), count in counts.items():
        states[state] += count
    return (((state,), count) for state, count in states.items())
