"""What a broker and the program that started it say to each other: one line of JSON each way."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MAX_LINE_BYTES = 1 << 20
STOP_TIMEOUT_S = 40.0
"""Twice what a broker gives itself to stop; one that has not ended by then hangs in the disk."""


class BrokerFailed(Exception):
    """A broker did not start, or did not stop as it should have; says why, with the end of its log."""


class Order(NamedTuple):
    """What to start: settings as text, and the directory to remove if the program that ordered it is gone."""

    settings: dict[str, str]
    directory: str


class Ready(NamedTuple):
    """The broker serves clients: where, and what it has to say about its settings."""

    bootstrap_servers: str
    http_port: int | None
    warnings: list[str]


class Refused(NamedTuple):
    """The broker did not start."""

    reason: str


def pack(message: Order | Ready | Refused) -> bytes:
    """Give the line of a message."""
    return json.dumps([type(message).__name__, *message]).encode() + b"\n"


def unpack(line: bytes) -> Any:
    """Give the message of a line."""
    name, *fields = json.loads(line)
    return {kind.__name__: kind for kind in (Order, Ready, Refused)}[name](*fields)
