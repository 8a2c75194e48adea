"""What the coordinators export: where the rows of the metrics catalog about groups and transactions are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from broker.coordinator.stats import RuntimeStats
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinators import Coordinators
from broker.metrics.catalog import jmx, own
from broker.metrics.catalog.row import Metric
from broker.metrics.instruments import Histogram
from broker.metrics.sources import AnySource, HistogramSource, Sample, Source, single

AllCoordinators = Callable[[], Coordinators | None]
"""None before they are started."""


def coordinator_sources(coordinators: AllCoordinators) -> Iterator[AnySource]:
    """Yield a source for every row about a coordinator."""
    yield from _group_sources(coordinators)
    yield from _transaction_sources(coordinators)
    yield Source(own.COORDINATOR_PARTITIONS, lambda: _partitions(coordinators()))
    yield _per_coordinator(own.COORDINATOR_LOAD_SECONDS, coordinators, lambda stats: stats.load_seconds)
    yield _per_coordinator(own.COORDINATOR_QUEUE_SECONDS, coordinators, lambda stats: stats.queue_seconds)
    yield _per_coordinator(own.COORDINATOR_WRITE_SECONDS, coordinators, lambda stats: stats.write_seconds)
    yield Source(
        own.COORDINATOR_FAILED_LOADS,
        lambda: (((name,), stats.failed_loads) for name, stats in _runtime_stats(coordinators())),
    )


def _group_sources(coordinators: AllCoordinators) -> Iterator[Source]:
    def of_groups(value: Callable[[Coordinators], Iterable[Sample]]) -> Iterable[Sample]:
        found = coordinators()
        return () if found is None else value(found)

    yield Source(jmx.GROUP_REBALANCES, lambda: of_groups(lambda found: _per_state(found.groups.group_stats.rebalances)))
    yield Source(jmx.OFFSET_COMMITS, lambda: of_groups(lambda found: (((), found.groups.group_stats.commits),)))
    yield Source(jmx.OFFSET_EXPIRATIONS, lambda: of_groups(lambda found: (((), found.groups.group_stats.expirations),)))
    yield Source(jmx.OFFSET_DELETIONS, lambda: of_groups(lambda found: (((), found.groups.group_stats.deletions),)))


def _transaction_sources(coordinators: AllCoordinators) -> Iterator[AnySource]:
    def of_transactions(value: Callable[[TransactionCoordinator], int]) -> int:
        found = coordinators()
        return 0 if found is None else value(found.transactions)

    def states() -> Iterable[Sample]:
        found = coordinators()
        return () if found is None else _per_state(found.transactions.count_by_state())

    def verification_seconds() -> Iterable[tuple[tuple[str, ...], Histogram]]:
        found = coordinators()
        return () if found is None else (((), found.verifier.seconds),)

    def verification_failures() -> int:
        found = coordinators()
        return 0 if found is None else found.verifier.failure_count

    yield Source(own.TRANSACTIONAL_IDS, states)
    yield single(own.TRANSACTIONS_COMPLETING, lambda: of_transactions(lambda found: found.completing_count))
    yield single(own.TRANSACTION_MARKERS_WAITING, lambda: of_transactions(lambda found: found.retrying_count))
    yield single(own.TRANSACTIONS_TIMED_OUT, lambda: of_transactions(lambda found: found.timed_out_count))
    yield HistogramSource(own.VERIFICATION_SECONDS, verification_seconds)
    yield single(own.VERIFICATION_FAILURES, verification_failures)


def _per_coordinator(
    metric: Metric, coordinators: AllCoordinators, value: Callable[[RuntimeStats], Histogram]
) -> HistogramSource:
    return HistogramSource(metric, lambda: [((name,), value(stats)) for name, stats in _runtime_stats(coordinators())])


def _runtime_stats(found: Coordinators | None) -> Iterable[tuple[str, RuntimeStats]]:
    return () if found is None else (("group", found.groups.stats), ("transaction", found.transactions.stats))


def _partitions(found: Coordinators | None) -> Iterator[Sample]:
    if found is not None:
        for name, coordinator in (("group", found.groups), ("transaction", found.transactions)):
            counts = coordinator.count_partitions()
            for state in ("loading", "active", "failed"):
                yield (name, state), counts[state]


def _per_state(counts: Mapping[str, int]) -> Iterable[Sample]:
    return (((state,), count) for state, count in counts.items())
