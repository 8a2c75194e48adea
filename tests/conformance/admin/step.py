"""One request of the script that both brokers get."""

from __future__ import annotations

from typing import Any, NamedTuple


class Step(NamedTuple):
    """One request."""

    name: str
    api: str
    version: int
    values: dict[str, Any]
