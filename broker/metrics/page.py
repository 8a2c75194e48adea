"""The text of `/metrics`, rendered by prometheus_client."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


def registry_of(collector: Collector) -> CollectorRegistry:
    """Register a collector, and with it what the kernel knows of the process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(collector)
    return registry


def render(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Return the content type and the text of one scrape, in the format that is asked for."""
    encode, content_type = _encoder(accept)
    return content_type, encode(registry)


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Choose the format that is asked for; the plain one for a version that is none, at which the library trips."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
