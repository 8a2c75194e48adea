"""What clients cause: connections, requests, fetch sessions, use of quotas, and what they push of their own metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.api.fetch_sessions import FetchSessions
from broker.exported.parts import Watched
from broker.live_quotas import LiveQuotas
from broker.metrics.catalog import jmx, own
from broker.metrics.instruments import ScrapeStats
from broker.metrics.sources import AnySource, Line, Sample, Source, Table, single, single_histogram
from broker.net.census import by_listener, held_by
from broker.net.listener import Listeners
from broker.quota.kind import Use
from broker.telemetry.store import ClientMetricsStore

MAX_QUOTA_SERIES = 200
"""Of each kind of quota; client ids are what clients make up."""


def client_sources(watched: Watched) -> Iterator[AnySource]:
    """Yield a source for every row about what clients do."""
    yield from _connection_sources(watched.connections)
    yield from _scrape_sources(watched.stats.scrapes)
    yield from _session_sources(watched.sessions)
    yield from _quota_sources(watched.quotas)
    yield from _pushed_sources(watched.client_metrics)


def _connection_sources(connections: Listeners) -> Iterator[AnySource]:
    def per_listener() -> Iterable[Sample | None]:
        for found in by_listener(connections):
            if found is None:
                yield None
            else:
                yield from (((listener,), count) for listener, count in found.items())

    def held() -> Iterable[Line | None]:
        for found in held_by(connections):
            yield None if found is None else ((), found)

    yield Source(jmx.CONNECTIONS, per_listener)
    yield Source(jmx.CONNECTIONS_STRIMZI, per_listener)
    yield single(jmx.CONNECTIONS_ACCEPTED, lambda: connections.accepted_count)
    yield Table((own.RECEIVED_BYTES_HELD, own.RECEIVE_BUFFER_BYTES, own.UNSENT_BYTES), held)


def _scrape_sources(stats: ScrapeStats) -> Iterator[AnySource]:
    yield single_histogram(own.SCRAPE_SECONDS, stats.seconds)
    yield single(own.SCRAPE_BUSY_SECONDS, lambda: stats.busy_ns / 1e9)
    yield single(own.SCRAPE_LONGEST_SLICE_SECONDS, lambda: stats.longest_slice_ns / 1e9)


def _session_sources(sessions: FetchSessions) -> Iterator[Source]:
    yield single(jmx.FETCH_SESSIONS, lambda: len(sessions))
    yield single(jmx.FETCH_SESSION_PARTITIONS, lambda: sessions.partition_count)
    yield single(jmx.FETCH_SESSION_EVICTIONS, lambda: sessions.evicted_count)


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


def _pushed_sources(store: ClientMetricsStore) -> Iterator[Source]:
    yield Source(own.CLIENT_METRIC, lambda: ((sample[:4], sample.value) for sample in store.samples()))
    yield single(own.CLIENT_METRICS_CLIENTS, lambda: len(store))
    yield single(own.CLIENT_METRICS_PUSHES, lambda: store.push_count)
    yield single(own.CLIENT_METRICS_DROPPED, lambda: store.dropped_count)
