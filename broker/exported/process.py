"""What the process exports: what it is, how its event loop is doing, what it may use and what it reads and writes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache

import native
from broker.background.disk_work import DiskWork
from broker.metrics.catalog import jmx, own
from broker.metrics.loop_watch import LoopWatch
from broker.metrics.sources import AnySource, Sample, Source, single, single_histogram
from broker.runtime.memory import memory_limit_bytes, read_text
from broker.version import VERSION

OWN_IO = "/proc/self/io"


def process_sources(loop: LoopWatch, work: DiskWork) -> Iterator[AnySource]:
    """Yield a source for every row about the process."""
    limit = cache(memory_limit_bytes)
    yield Source(own.BUILD_INFO, lambda: (((VERSION, native.form(), ".".join(map(str, sys.version_info[:3]))), 1),))
    yield single_histogram(own.LOOP_LAG, loop.lateness)
    yield single(own.LOOP_BUSY, lambda: loop.busy_share)
    yield single(jmx.NETWORK_IDLE, lambda: 1 - loop.busy_share)
    yield single(jmx.HANDLERS_IDLE, lambda: 1 - loop.busy_share)
    yield single(own.MEMORY_LIMIT, lambda: limit())
    yield single(own.PAGE_CACHE_BUDGET, lambda: work.page_cache.default_bytes)
    yield Source(jmx.DISK_READ_BYTES, lambda: _io("read_bytes"))
    yield Source(jmx.DISK_WRITE_BYTES, lambda: _io("write_bytes"))


def _io(name: str) -> Iterable[Sample]:
    """Give what the kernel counts of our reads or writes, nothing where it tells nobody."""
    try:
        lines = read_text(OWN_IO).splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition(": ")
        if key == name:
            yield (), int(value)
