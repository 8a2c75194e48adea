"""What the requests of clients export: how many, how long they took and waited, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker.exported.recent import QUANTILES, Recent
from broker.metrics.catalog import jmx, own
from broker.metrics.instruments import BrokerStats, Histogram, RequestStats
from broker.metrics.sources import AnySource, HistogramSource, Labels, Sample, Source, Summary, SummarySource, single
from broker.net.census import waiting_by_api
from broker.net.listener import Listeners
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

_CODE_NAMES = {int(code): code.name for code in ErrorCode}
_NEVER = Histogram()
_NO_TIME = Summary(tuple((quantile, 0) for quantile in QUANTILES), 0, 0)
PURGATORIES = {"Fetch": ApiKey.FETCH, "Produce": ApiKey.PRODUCE, "DeleteRecords": ApiKey.DELETE_RECORDS}


def request_sources(stats: BrokerStats, connections: Listeners, monotonic_ns: Callable[[], int]) -> Iterator[AnySource]:
    """Yield a source for every row about requests. APIs that nobody has used have no series."""

    def used() -> list[tuple[str, RequestStats]]:
        return [(api, one) for api, one in stats.requests.items() if one.received_bytes or one.errors]

    def per_api(value: Callable[[RequestStats], int]) -> Iterable[Sample]:
        return (((api,), value(one)) for api, one in used())

    yield HistogramSource(own.REQUEST_SECONDS, lambda: (((api,), one.latency) for api, one in used()))
    yield HistogramSource(
        own.REQUEST_WAIT_SECONDS,
        lambda: (((api,), one.waits.waited) for api, one in used() if one.waits is not None),
    )
    yield Source(own.REQUEST_BYTES, lambda: per_api(lambda one: one.received_bytes))
    yield Source(own.REQUEST_FAILURES, lambda: per_api(lambda one: one.failed))
    yield Source(own.REQUEST_MALFORMED, lambda: per_api(lambda one: one.malformed))
    yield single(own.REFUSED_FRAMES, lambda: stats.refused_frames)
    yield Source(own.NETWORK_ERRORS, lambda: _errors(used()))
    yield Source(own.WAITING_REQUESTS, lambda: _waiting(connections))
    yield from _kafka_sources(used, connections, monotonic_ns)


def _errors(used: Iterable[tuple[str, RequestStats]]) -> Iterable[Sample]:
    for api, one in used:
        for code, count in tuple(one.errors.items()):
            yield (api, _CODE_NAMES.get(code, str(code))), count


def _waiting(connections: Listeners) -> Iterable[Sample | None]:
    for found in waiting_by_api(connections):
        if found is None:
            yield None
        else:
            yield from (((ApiKey(key).name.lower(),), count) for key, count in found.items())


# --- Kafka's names ---


def kafka_name(api: str) -> str:
    """Spell the name of an API as Kafka's beans do: OffsetCommit."""
    return "".join(word.capitalize() for word in api.split("_"))


def _kafka_sources(
    used: Callable[[], list[tuple[str, RequestStats]]], connections: Listeners, monotonic_ns: Callable[[], int]
) -> Iterator[AnySource]:
    def named() -> Iterator[tuple[Labels, str, RequestStats]]:
        for api, one in used():
            yield (kafka_name(api),), api, one
            if api == "fetch":
                yield ("FetchConsumer",), api, one

    def errors() -> Iterable[Sample]:
        for labels, api, one in named():
            yield from (((*labels, code), count) for (_, code), count in _errors([(api, one)]))

    def no_time() -> Iterable[tuple[Labels, Summary]]:
        return ((labels, _NO_TIME._replace(observed=one.latency.count)) for labels, _, one in named())

    def times(
        histograms: Callable[[RequestStats], tuple[Histogram, ...]],
    ) -> Callable[[], Iterable[tuple[Labels, Summary]]]:
        recent: dict[str, Recent] = {}

        def summaries() -> Iterable[tuple[Labels, Summary]]:
            now_ns = monotonic_ns()
            for labels, api, one in named():
                of_api = recent.setdefault(api, Recent())
                yield labels, of_api.summary(now_ns, *histograms(one))

        return summaries

    yield Source(jmx.REQUESTS, lambda: ((labels, one.latency.count) for labels, _, one in named()))
    yield Source(jmx.ERRORS, errors)
    yield SummarySource(jmx.TOTAL_TIME, times(lambda one: (one.latency,)))
    yield SummarySource(jmx.LOCAL_TIME, times(_local))
    yield SummarySource(jmx.REMOTE_TIME, times(_remote))
    yield SummarySource(jmx.REQUEST_QUEUE_TIME, no_time)
    yield SummarySource(jmx.RESPONSE_QUEUE_TIME, no_time)
    yield single(jmx.REQUEST_QUEUE_SIZE, lambda: 0)
    yield single(jmx.RESPONSE_QUEUE_SIZE, lambda: 0)
    yield Source(jmx.PURGATORY_SIZE, lambda: _purgatories(connections))


def _purgatories(connections: Listeners) -> Iterable[Sample | None]:
    for found in waiting_by_api(connections):
        if found is None:
            yield None
        else:
            yield from (((name,), found[key]) for name, key in PURGATORIES.items())


def _local(one: RequestStats) -> tuple[Histogram, ...]:
    """Return the times of the work: those of requests that did not wait, and the first part of those that did."""
    if one.waits is None:
        return (one.latency,)
    local = Histogram()
    local.counts = [
        total - waited + worked
        for total, waited, worked in zip(
            one.latency.counts, one.waits.total.counts, one.waits.worked.counts, strict=True
        )
    ]
    local.total = one.latency.total - one.waits.waited.total
    return (local,)


def _remote(one: RequestStats) -> tuple[Histogram, ...]:
    """Return the times of waiting, and in the second place all requests: the rest has waited for nothing."""
    return (_NEVER if one.waits is None else one.waits.waited, one.latency)
