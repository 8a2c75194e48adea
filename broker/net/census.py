"""What the open connections wait for and hold in memory, counted when somebody asks.

Counters on the way of a request would cost it something, and drift where a connection breaks in the middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.metrics.sources import ITEMS_PER_BREATH
from broker.net.connection import Connection


class Held(NamedTuple):
    """Bytes that connections hold."""

    received: int
    """Of requests that have come behind one that waits, or are not whole."""
    buffers: int
    """Of the buffers in which large requests are received."""
    unsent: int
    """Of answers that the sockets have not taken yet; most of them are still in files."""


def held_by(connections: Iterable[Connection]) -> Iterator[Held | None]:
    """Give one answer at last, and None where the walk may pause."""
    received = buffers = unsent = 0
    for index, connection in enumerate(tuple(connections)):
        if not index % ITEMS_PER_BREATH:
            yield None
        received += len(connection.kept)
        if connection.own is not None:
            received += connection.own_filled
            buffers += len(connection.own)
        unsent += connection.outbox.size_bytes
    yield Held(received, buffers, unsent)


def waiting_by_api(connections: Iterable[Connection]) -> Iterator[Counter[int] | None]:
    """Count the requests that wait, by API key; give one answer at last, and None where the walk may pause."""
    waiting: Counter[int] = Counter()
    for index, connection in enumerate(tuple(connections)):
        if not index % ITEMS_PER_BREATH:
            yield None
        if connection.waiting is not None and not connection.muted:
            waiting[connection.context.api_key] += 1
    yield waiting


def by_listener(connections: Iterable[Connection]) -> Iterator[Counter[str] | None]:
    """Count connections by listener; give one answer at last, and None where the walk may pause."""
    found: Counter[str] = Counter()
    for index, connection in enumerate(tuple(connections)):
        if not index % ITEMS_PER_BREATH:
            yield None
        found[connection.listener.name] += 1
    yield found
