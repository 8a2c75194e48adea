"""All that this broker exports, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.exported.clients import client_sources
from broker.exported.controller import controller_sources
from broker.exported.coordinators import AllCoordinators, coordinator_sources
from broker.exported.delivery import delivery_sources
from broker.exported.disks import disk_sources
from broker.exported.groups import group_sources
from broker.exported.partitions import partition_sources
from broker.exported.parts import Watched
from broker.exported.process import process_sources
from broker.exported.requests import request_sources
from broker.exported.topics import topic_sources
from broker.lag.watch import LagWatch
from broker.metrics.catalog import jmx
from broker.metrics.loop_watch import LoopWatch
from broker.metrics.sources import AnySource, single

_STATES = {"running": 3, "log recovery": 2}
_STARTING, _STOPPING = 1, 6


def broker_state(phase: str) -> int:
    """Give the number Kafka uses for where the broker is."""
    return _STATES.get(phase, _STOPPING if phase.startswith("stop") else _STARTING)


def broker_sources(
    watched: Watched,
    coordinators: AllCoordinators,
    lag: LagWatch,
    retention_seconds: Callable[[], float],
    monotonic_ns: Callable[[], int],
    loop: LoopWatch,
) -> Iterator[AnySource]:
    """Yield a source for every row of the catalog."""
    yield single(jmx.BROKER_STATE, lambda: broker_state(watched.phase.current))
    yield from request_sources(watched.stats, watched.connections, monotonic_ns)
    yield from client_sources(watched)
    yield from partition_sources(watched.partitions)
    yield from delivery_sources(watched.partitions, watched.deliveries, watched.stats.deliveries)
    yield from disk_sources(watched, retention_seconds)
    yield from coordinator_sources(coordinators)
    yield from topic_sources(coordinators, watched.partitions)
    yield from group_sources(lag)
    yield from controller_sources(coordinators)
    yield from process_sources(loop, watched.disk_work)
