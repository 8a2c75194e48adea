"""What is kept of pushed metrics for whoever scrapes: the last number of each series, within bounds.

A client that stays silent for longer than it may is forgotten with its series. Beyond the bounds new series are dropped
and counted; what is known already goes on to be updated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.telemetry.otlp import Point

MAX_CLIENTS = 200
MAX_SERIES_PER_CLIENT = 500
MAX_SERIES = 2_000
"""Writing one out at a scrape takes some 20 µs of the loop's time."""
MAX_LABEL_CHARACTERS = 200

_SeriesKey = tuple[str, str]
"""Name, and attributes as text."""


class Sample(NamedTuple):
    """One series as it is exported."""

    client_instance_id: str
    client_id: str
    metric: str
    attributes: str
    value: float


class _Client:
    __slots__ = ("client_id", "series")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.series: dict[_SeriesKey, float] = {}


class ClientMetricsStore:
    """The last numbers of all clients."""

    def __init__(self) -> None:
        # By instance id, the client that has pushed longest ago first.
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self.series_count = 0
        self.push_count = 0
        self.dropped_count = 0

    def __len__(self) -> int:
        return len(self._clients)

    def put(self, instance_id: str, client_id: str, points: Iterable[Point]) -> None:
        """Take in a push. Where there are too many clients, a new one takes the place of who was silent longest."""
        self.push_count += 1
        client = self._clients.get(instance_id)
        if client is None:
            if len(self._clients) == MAX_CLIENTS:
                self.forget(next(iter(self._clients)))
            client = self._clients[instance_id] = _Client(_label(client_id))
        self._clients.move_to_end(instance_id)
        for point in points:
            key = (_label(point.name), _label(",".join(f"{name}={value}" for name, value in point.attributes)))
            before = client.series.get(key)
            if before is None:
                if len(client.series) >= MAX_SERIES_PER_CLIENT or self.series_count >= MAX_SERIES:
                    self.dropped_count += 1
                    continue
                self.series_count += 1
            client.series[key] = point.value if before is None or not point.is_delta else before + point.value

    def forget(self, instance_id: str) -> None:
        """Drop what a client has pushed."""
        client = self._clients.pop(instance_id, None)
        if client is not None:
            self.series_count -= len(client.series)

    def samples(self) -> Iterator[Sample]:
        """Yield every series."""
        for instance_id, client in self._clients.items():
            for (metric, attributes), value in client.series.items():
                yield Sample(instance_id, client.client_id, metric, attributes, value)


def _label(text: str) -> str:
    return text[:MAX_LABEL_CHARACTERS]
