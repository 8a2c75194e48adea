"""The page of `/metrics`: reads the sources and writes them down on the loop, a slice at a time.

Values are read where they change, on the loop; a thread that wrote them down would keep the interpreter from the loop
as long. So both are done in slices that give way to it. Who asks while a scrape is under way gets that one: two
scrapers cost as much as one. What the library does, and the compression, are done in threads.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker.metrics.instruments import ScrapeStats
from broker.metrics.sources import AnySource
from broker.metrics.text import written
from broker.runtime.pools import RunBeside
from broker.runtime.tasks import TaskOwner
from broker.runtime.turns import TURN_NS
from config.views import MetricsConfig

if TYPE_CHECKING:
    from broker.metrics.library import Format

PIECES_PER_BLOCK = 8
"""So many are encoded, and later compressed, at once: some ten KiB, at most some hundred."""
GZIP_LEVEL = 1
"""A tenth of the text is left; more effort saves little more."""
GZIP_WINDOW_BITS = 31


class Scraped(NamedTuple):
    """The text of one scrape, as it goes over the wire."""

    content_type: str
    body: bytes
    is_gzip: bool


class MetricsPage:
    """Writes down what the broker counts."""

    def __init__(
        self,
        sources: Iterable[AnySource],
        config: Callable[[], MetricsConfig],
        run_beside: RunBeside,
        monotonic_ns: Callable[[], int],
        stats: ScrapeStats,
    ) -> None:
        self._sources = tuple(sources)
        self._config = config
        self._run_beside = run_beside
        self._monotonic_ns = monotonic_ns
        self._tasks = TaskOwner("metrics")
        self._running: dict[tuple[str, bool], asyncio.Task[Scraped]] = {}
        self._format_for: Callable[[str], Format] | None = None  # set with the first scrape
        self._stats = stats

    async def scrape(self, accept: str, accept_encoding: str = "") -> Scraped:
        """Give the text in the format that is asked for."""
        if self._format_for is None:
            self._format_for = await self._run_beside(_load)
        chosen = self._format_for(accept)
        is_gzip = takes_gzip(accept_encoding)
        key = chosen.content_type, is_gzip
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = self._tasks.spawn("scrape", self._scrape(chosen, is_gzip))
            running.add_done_callback(lambda _: self._running.pop(key))
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Give up what is under way."""
        await self._tasks.close()

    async def _scrape(self, chosen: Format, is_gzip: bool) -> Scraped:
        started_ns = self._monotonic_ns()
        blocks = await self._in_slices(written(self._sources, self._config(), is_openmetrics=chosen.is_openmetrics))
        blocks.append(await self._run_beside(chosen.process_text))
        body = await self._run_beside(lambda: compressed(blocks)) if is_gzip else b"".join(blocks)
        self._stats.seconds.observe((self._monotonic_ns() - started_ns) / 1e9)
        return Scraped(chosen.content_type, body, is_gzip)

    async def _in_slices(self, pieces: Iterator[str]) -> list[bytes]:
        blocks: list[bytes] = []
        gathered: list[str] = []
        clock = self._monotonic_ns
        longest_ns = 0
        began_ns = clock()
        for piece in pieces:
            if piece:
                gathered.append(piece)
            if len(gathered) == PIECES_PER_BLOCK:
                blocks.append("".join(gathered).encode(errors="replace"))
                gathered.clear()
            took_ns = clock() - began_ns
            if took_ns >= TURN_NS:
                self._stats.busy_ns += took_ns
                longest_ns = max(longest_ns, took_ns)
                await asyncio.sleep(0)
                began_ns = clock()
        blocks.append("".join(gathered).encode(errors="replace"))
        took_ns = clock() - began_ns
        self._stats.busy_ns += took_ns
        self._stats.longest_slice_ns = max(longest_ns, took_ns)
        return blocks


def _load() -> Callable[[str], Format]:
    from broker.metrics.library import format_for

    return format_for


def compressed(blocks: Iterable[bytes]) -> bytes:
    """Compress as gzip does."""
    packer = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW_BITS)
    return b"".join((*map(packer.compress, blocks), packer.flush()))


def takes_gzip(accept_encoding: str) -> bool:
    """Tell whether a header names gzip, and does not weigh it with nothing."""
    for coding in accept_encoding.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
