"""How a client behaves: who it says it is, how long it waits, what it accepts. Names and defaults are Kafka's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.client.errors import ClientError

MAX_RESPONSE_BYTES = 256 << 20
"""No tool asks for more at once; what announces more is no broker."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
PORT = 9092
MAX_MS = (1 << 31) - 1
MAX_DIGITS = 20
"""Of a number that is looked at."""


class Settings(NamedTuple):
    """What a caller may choose."""

    client_id: str = "odradek"
    request_timeout_s: float = 30.0
    """For one answer (`request.timeout.ms`)."""
    total_timeout_s: float = 60.0
    """For one call with all its tries (`default.api.timeout.ms`)."""
    connect_timeout_s: float = 10.0
    """For one address (`socket.connection.setup.timeout.ms`)."""
    max_response_bytes: int = MAX_RESPONSE_BYTES
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def settings_of(properties: Mapping[str, str], defaults: Settings | None = None) -> Settings:
    """Take settings from the properties of a Java client; those that mean nothing here change nothing.

    Raises: ClientError for a security protocol other than PLAINTEXT, and for what is no number.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip()
    if protocol.upper() != "PLAINTEXT":
        raise ClientError(f"security.protocol={protocol} is not supported by this tool: only PLAINTEXT is")
    settings = defaults or Settings()
    client_id = properties.get("client.id", settings.client_id)
    return settings._replace(
        client_id=client_id,
        request_timeout_s=_seconds(properties, "request.timeout.ms", settings.request_timeout_s),
        total_timeout_s=_seconds(properties, "default.api.timeout.ms", settings.total_timeout_s),
        connect_timeout_s=_seconds(properties, "socket.connection.setup.timeout.ms", settings.connect_timeout_s),
    )


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Take `host:port,host:port` apart; IPv6 addresses stand in brackets, and a port that is left out is 9092."""
    addresses = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = part, str(PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ClientError(f"Invalid bootstrap server {part[:80]!r}: expected host:port")
        addresses.append((host, int(port)))
    if not addresses:
        raise ClientError("No bootstrap server is given")
    return addresses


def _seconds(properties: Mapping[str, str], name: str, default_s: float) -> float:
    text = properties.get(name)
    if text is None:
        return default_s
    if not text.isdecimal() or len(text) > MAX_DIGITS or int(text) > MAX_MS:
        raise ClientError(
            f"Invalid value {text[:80]} for configuration {name}: expected milliseconds, {MAX_MS} at most"
        )
    return int(text) / 1000
