"""What the broker shows over HTTP: which pages there are, and what each is read from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial

from broker.exported.sources import broker_sources
from broker.http.health import HINT, health_pages
from broker.http.server import HttpServer
from broker.lag.watch import LagWatch
from broker.metrics.catalog.own import OLDEST_TIMESTAMP
from broker.metrics.page import MetricsPage, Scraped
from broker.metrics.sources import is_wanted
from broker.runtime.garbage import Undisturbed
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from broker.status import late
from broker.status.parts import Parts
from broker.status.samples import INTERVAL_MS
from config.views import MetricsConfig

HTTP_POOL = "http"


class HttpSide:
    """The HTTP port of a broker, from before its start to the end of its stop."""

    def __init__(
        self,
        parts: Parts,
        pools: Pools,
        scheduler: Scheduler,
        metrics_config: Callable[[], MetricsConfig],
        undisturbed: Undisturbed,
    ) -> None:
        self._parts = parts
        self._scheduler = scheduler
        self._undisturbed = undisturbed
        self._has_status = parts.config.http_status_page
        run_beside = partial(pools.io, HTTP_POOL)
        self._metrics_config = metrics_config
        self._lag = LagWatch(parts.watched.partitions, pools, parts.clock)
        sources = broker_sources(
            parts.watched,
            parts.coordinators,
            self._lag,
            lambda: parts.retention.last_run_seconds,
            parts.clock.monotonic_ns,
            parts.loop_watch,
        )
        self._metrics = MetricsPage(
            sources, metrics_config, run_beside, parts.clock.monotonic_ns, parts.watched.stats.scrapes
        )
        pages = health_pages(self._scrape, lambda: parts.not_ready_reason)
        if self._has_status:
            pages = {**late.LateStatus(parts, run_beside, undisturbed).pages(), **pages}
        self._server = HttpServer(pages, late.HINT if self._has_status else HINT)
        self.port: int | None = None  # the bound one; set by open

    async def open(self) -> None:
        """Begin to answer, if that is wanted. Raises: OSError."""
        listener = self._parts.config.http_listener
        if listener is None:
            return
        self._parts.loop_watch.start(asyncio.get_running_loop().call_later)
        host, port = listener
        try:
            self.port = await self._server.open(host, port)
        except OSError as refused:
            # asyncio's own words for a port that is taken name the address once more.
            code = refused.errno or 0
            reason = os.strerror(code) if code > 0 else refused.strerror or str(refused)
            raise OSError(f"odradek.http.listener cannot bind {host}:{port}: {reason}") from refused
        if self._has_status:
            self._parts.lines.open()
            self._scheduler.every("status samples", INTERVAL_MS, self._parts.samples.take)

    async def close(self) -> None:
        """Stop to answer."""
        self._parts.loop_watch.stop()
        self._parts.lines.close()
        await self._server.close()
        await self._metrics.close()

    async def leave_logs(self) -> None:
        """Look into no log any more: they are about to be closed, by other threads."""
        await self._lag.close()

    async def _scrape(self, accept: str, accept_encoding: str) -> Scraped:
        with self._undisturbed():
            return await self._read_all(accept, accept_encoding)

    async def _read_all(self, accept: str, accept_encoding: str) -> Scraped:
        coordinators = self._parts.coordinators()
        if coordinators is not None:
            await self._lag.look(
                coordinators.image,
                coordinators.groups.shards,
                with_first_records=is_wanted(OLDEST_TIMESTAMP, self._metrics_config()),
            )
        return await self._metrics.scrape(accept, accept_encoding)
