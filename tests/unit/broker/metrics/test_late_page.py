"""The page of metrics is put together once, beside the loop, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.metrics.catalog import own
from broker.metrics.instruments import BrokerStats
from broker.metrics.late_page import LatePage
from broker.metrics.sources import single
from config.views import MetricsConfig


async def test_the_first_scrape_loads_beside_the_loop_and_every_scrape_asks_the_sources() -> None:
    loads = 0
    values = iter((3.0, 4.0))

    async def run_beside(call: Callable[[], Any]) -> Any:
        nonlocal loads
        loads += 1
        return call()

    page = LatePage(BrokerStats(), iter([single(own.REFUSED_FRAMES, lambda: next(values))]), MetricsConfig, run_beside)
    name = own.REFUSED_FRAMES.name
    for value in (3.0, 4.0):
        content_type, text = await page.render("")
        assert content_type.startswith("text/plain")
        assert f"{value}\n".encode() in text and name.encode() in text
    assert loads == 1
