"""The configuration of an embedded broker, and where it is reached."""

from __future__ import annotations

from collections.abc import Mapping

from broker.embedding.messages import Ready
from broker.server import Broker
from config.load import Loaded, check
from config.sources import SourcedValue

ORIGIN = "given to EmbeddedBroker"
ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that nobody can connect to, and what a client on this machine uses instead."""


def load_settings(settings: Mapping[str, str]) -> Loaded:
    """Check settings; neither a file nor the environment of the program has a say. Raises: InvalidConfig."""
    return check({name: SourcedValue(text, ORIGIN) for name, text in settings.items()})


def ready(broker: Broker, warnings: tuple[str, ...]) -> Ready:
    """Tell where a broker that has started is."""
    listener = broker.listeners[0]
    host = ANYWHERE.get(listener.host, listener.host)
    place = f"[{host}]" if ":" in host else host
    return Ready(f"{place}:{listener.port}", broker.http_port, list(warnings))
