"""The handler table: every family, joined into one map from API key to route. Nothing else says what we serve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from broker.api.route import Route
from protocol.api_keys import ApiKey
from protocol.messages import REQUESTS


class Family(Protocol):
    """A family of handlers."""

    def routes(self) -> tuple[Route, ...]:
        """Name what the family serves."""


def join(families: Iterable[Family]) -> dict[ApiKey, Route]:
    """Join the routes of all families. Raises: ValueError for a key served twice."""
    table: dict[ApiKey, Route] = {}
    for family in families:
        for route in family.routes():
            if route.api_key in table:
                raise ValueError(f"{route.api_key.name} is served by two families")
            table[route.api_key] = route
    return dict(sorted(table.items()))


def ensure_declared(table: dict[ApiKey, Route]) -> None:
    """Check that the message schemas know every served version; a test's work, since it loads all of them."""
    for key, route in table.items():
        request = REQUESTS[key]
        first = route.first_served_version
        if not request.MIN_VERSION <= first <= route.max_version <= request.MAX_VERSION:
            raise ValueError(f"{key.name} {first}-{route.max_version} is not declared")
