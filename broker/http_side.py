"""What the broker shows over HTTP: which pages there are, and what each is read from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.coordinators import Coordinators
from broker.exported.parts import Watched
from broker.exported.sources import broker_sources
from broker.http.health import HINT, health_pages
from broker.http.server import HttpServer
from broker.metrics.page import MetricsPage
from broker.runtime.pools import Pools
from config.views import MetricsConfig

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
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._listener = listener
        self._watched = watched
        sources = broker_sources(watched, coordinators, retention_seconds)
        self._metrics = MetricsPage(
            sources, metrics_config, partial(pools.io, HTTP_POOL), monotonic_ns, watched.stats.scrapes
        )
        self._server = HttpServer(health_pages(self._metrics.scrape, self._not_ready_reason), HINT)
        self.port: int | None = None  # the bound one; set by open

    async def open(self) -> None:
        """Begin to answer, if that is wanted. Raises: OSError."""
        if self._listener is None:
            return
        host, port = self._listener
        try:
            self.port = await self._server.open(host, port)
        except OSError as refused:
            raise OSError(f"odradek.http.listener cannot bind {host}:{port}: {refused.strerror}") from refused

    async def close(self) -> None:
        """Stop to answer."""
        await self._server.close()
        await self._metrics.close()

    def _not_ready_reason(self) -> str:
        step = self._watched.phase.current
        if step == "running":
            return ""
        progress = self._watched.recovery.where()
        return f"{step}: {progress}" if progress else step
