"""A scrape gives way to the loop after every slice, is done once for all who ask meanwhile, and loads late."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from broker.metrics.catalog import jmx, own
from broker.metrics.instruments import ScrapeStats
from broker.metrics.page import MetricsPage, takes_gzip
from broker.metrics.sources import AnySource, Sample, Source, single
from broker.runtime.turns import TURN_NS
from config.views import MetricsConfig

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Rig:
    """A page whose threads are the loop, and whose clock goes on when a source is read."""

    def __init__(self, *sources: AnySource, step_ns: int = 0) -> None:
        self.loads: list[str] = []
        self.now_ns = 0
        self.step_ns = step_ns
        self.stats = ScrapeStats()
        self.page = MetricsPage(sources, MetricsConfig, self.run_beside, lambda: self.now_ns, self.stats)

    async def run_beside(self, call: Callable[[], Any]) -> Any:
        self.loads.append(getattr(call, "__name__", ""))
        await asyncio.sleep(0)
        return call()

    def samples(self, count: int) -> Iterable[Sample]:
        for index in range(count):
            self.now_ns += self.step_ns
            yield (str(index),), index


async def test_every_scrape_asks_the_sources_and_the_first_one_loads_the_library_beside_the_loop() -> None:
    values = iter((3, 4))
    rig = Rig(single(own.REFUSED_FRAMES, lambda: next(values)))
    for value in (3, 4):
        content_type, body, is_gzip = await rig.page.scrape("")
        assert content_type.startswith("text/plain") and not is_gzip
        assert f"odradek_network_refused_frames_total {value}\n".encode() in body
    assert rig.loads.count("_load") == 1


@pytest.mark.parametrize(("accept", "parse"), [("", parse_plain), (OPENMETRICS, parse_openmetrics)])
async def test_a_page_ends_with_the_process_and_is_whole(accept: str, parse: Callable[[str], Any]) -> None:
    rig = Rig(single(own.REFUSED_FRAMES, lambda: 1))
    _, body, _ = await rig.page.scrape(accept)
    names = [family.name for family in parse(body.decode())]
    assert names[0] == "odradek_network_refused_frames" and "process_open_fds" in names


async def test_a_long_scrape_lets_others_have_the_loop_after_every_slice() -> None:
    rig = Rig(step_ns=TURN_NS // 100)
    rig = Rig(Source(jmx.BYTES_IN, lambda: rig.samples(1_000)), step_ns=TURN_NS // 100)
    turns = 0
    running = asyncio.ensure_future(rig.page.scrape(""))
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    _, body, _ = await running
    assert body.count(b"bytesin_total{") == 1_000
    assert turns > 10
    assert rig.stats.longest_slice_ns <= 2 * TURN_NS
    assert rig.stats.busy_ns == 1_000 * rig.step_ns
    assert sum(rig.stats.seconds.counts) == 1


async def test_who_asks_while_a_scrape_is_under_way_gets_that_one() -> None:
    reads = 0

    def read() -> int:
        nonlocal reads
        reads += 1
        return reads

    rig = Rig(single(own.REFUSED_FRAMES, read))
    await rig.page.scrape("")
    assert reads == 1
    first, second, other = await asyncio.gather(
        rig.page.scrape(""), rig.page.scrape(""), rig.page.scrape("", "gzip, deflate")
    )
    assert first is second and reads == 3
    assert b"frames_total 3" in gzip.decompress(other.body) or b"frames_total 2" in gzip.decompress(other.body)
    await rig.page.scrape("")
    assert reads == 4, "a later one reads anew"


async def test_a_scrape_that_fails_fails_whoever_asked_and_the_next_one_begins_anew() -> None:
    answers: list[float] = []
    rig = Rig(single(own.REFUSED_FRAMES, answers.pop))
    with pytest.raises(IndexError):
        await rig.page.scrape("")
    answers.append(2)
    assert b"frames_total 2" in (await rig.page.scrape("")).body


async def test_whoever_goes_away_does_not_take_the_scrape_of_the_others_along() -> None:
    rig = Rig(single(own.REFUSED_FRAMES, lambda: 1))
    await rig.page.scrape("")
    gone, stays = (asyncio.ensure_future(rig.page.scrape("")) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert b"frames_total 1" in (await stays).body


@pytest.mark.parametrize(
    ("header", "expected"),
    [("gzip", True), ("br, x-gzip;q=0.5", True), ("gzip;q=0", False), ("identity", False), ("", False), ("*", False)],
)
def test_gzip_is_used_where_it_is_named(header: str, expected: bool) -> None:
    assert takes_gzip(header) is expected
