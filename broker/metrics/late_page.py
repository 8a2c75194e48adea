"""The page of `/metrics`, which is put together when it is first asked for.

prometheus_client brings a web server, a mail parser and codecs along: a tenth of what a start would have to load, and
megabytes that a broker without a scraper never needs. They are loaded in a thread, so that the loop goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from broker.metrics.instruments import BrokerStats
from broker.metrics.sources import HistogramSource, Source
from config.views import MetricsConfig

RunBeside = Callable[[Callable[[], Any]], Awaitable[Any]]


class LatePage:
    """Renders what the broker counts."""

    def __init__(
        self,
        stats: BrokerStats,
        sources: Iterable[Source | HistogramSource],
        config: Callable[[], MetricsConfig],
        run_beside: RunBeside,
    ) -> None:
        self._stats = stats
        self._sources = tuple(sources)
        self._config = config
        self._run_beside = run_beside
        self._render: Callable[[str], tuple[str, bytes]] | None = None  # set with the first scrape

    async def render(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text of one scrape."""
        if self._render is None:
            self._render = await self._run_beside(self._load)
        return self._render(accept)

    def _load(self) -> Callable[[str], tuple[str, bytes]]:
        from broker.metrics.collectors import BrokerCollector
        from broker.metrics.page import registry_of, render

        return partial(render, registry_of(BrokerCollector(self._stats, self._sources, self._config)))
