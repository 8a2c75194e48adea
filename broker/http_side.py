"""What the broker shows over HTTP: which pages there are, and what each is read from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from broker.coordinators import Coordinators
from broker.exported.parts import Watched
from broker.exported.sources import broker_sources
from broker.http.health import HINT, health_pages
from broker.http.server import HttpServer
from broker.lag.watch import LagWatch
from broker.metrics.catalog.own import OLDEST_TIMESTAMP
from broker.metrics.loop_watch import LoopWatch
from broker.metrics.page import MetricsPage, Scraped
from broker.metrics.sources import is_wanted
from broker.runtime.pools import Pools
from config.views import MetricsConfig
from storage.env.clock import Clock

HTTP_POOL = "http"


class HttpSide:
    """The HTTP port of a broker, from before its start to the end of its stop."""

    def __init__(
        self,
        listener: tuple[str, int] | None,
        pools: Pools,
        watched: Watched,
        metrics_config: Callable[[], MetricsConfig],
        coordinators: Callable[[], Coordinators | None],
        retention_seconds: Callable[[], float],
        clock: Clock,
    ) -> None:
        self._listener = listener
        self._watched = watched
        self._metrics_config = metrics_config
        self._coordinators = coordinators
        self._lag = LagWatch(watched.partitions, pools, clock)
        self._loop_watch = LoopWatch(clock.monotonic_ns, time.thread_time_ns)
        sources = broker_sources(
            watched, coordinators, self._lag, retention_seconds, clock.monotonic_ns, self._loop_watch
        )
        self._metrics = MetricsPage(
            sources, metrics_config, partial(pools.io, HTTP_POOL), clock.monotonic_ns, watched.stats.scrapes
        )
        self._server = HttpServer(health_pages(self._scrape, self._not_ready_reason), HINT)
        self.port: int | None = None  # the bound one; set by open

    async def open(self) -> None:
        """Begin to answer, if that is wanted. Raises: OSError."""
        if self._listener is None:
            return
        self._loop_watch.start(asyncio.get_running_loop().call_later)
        host, port = self._listener
        try:
            self.port = await self._server.open(host, port)
        except OSError as refused:
            raise OSError(f"odradek.http.listener cannot bind {host}:{port}: {refused.strerror}") from refused

    async def close(self) -> None:
        """Stop to answer."""
        self._loop_watch.stop()
        await self._server.close()
        await self._metrics.close()
        await self._lag.close()

    async def _scrape(self, accept: str, accept_encoding: str) -> Scraped:
        coordinators = self._coordinators()
        if coordinators is not None:
            await self._lag.look(
                coordinators.image,
                coordinators.groups.shards,
                with_first_records=is_wanted(OLDEST_TIMESTAMP, self._metrics_config()),
            )
        return await self._metrics.scrape(accept, accept_encoding)

    def _not_ready_reason(self) -> str:
        step = self._watched.phase.current
        if step == "running":
            return ""
        progress = self._watched.recovery.where()
        return f"{step}: {progress}" if progress else step
