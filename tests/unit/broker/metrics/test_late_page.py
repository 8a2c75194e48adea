"""The page of metrics is put together once, beside the loop, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.metrics import catalog
from broker.metrics.instruments import BrokerStats
from broker.metrics.late_page import LatePage
from broker.metrics.sources import single


async def test_the_first_scrape_loads_beside_the_loop_and_every_scrape_asks_the_sources() -> None:
    loads = 0
    values = iter((3.0, 4.0))

    async def run_beside(call: Callable[[], Any]) -> Any:
        nonlocal loads
        loads += 1
        return call()

    page = LatePage(BrokerStats(), iter([single(catalog.METRICS[0], lambda: next(values))]), run_beside)
    name = catalog.METRICS[0].name
    for value in (3.0, 4.0):
        content_type, text = await page.render("")
        assert content_type.startswith("text/plain")
        assert f"{value}\n".encode() in text and name.encode() in text
    assert loads == 1
