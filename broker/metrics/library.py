"""What prometheus_client does for the page of `/metrics`: it knows the formats, and what the kernel tells of a process.

It is loaded with the first scrape: it brings a web server, a mail parser and codecs along, megabytes that a broker
without a scraper never needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

_PROCESS = CollectorRegistry()
ProcessCollector(registry=_PROCESS)


class Format(NamedTuple):
    """How a scraper wants the text."""

    content_type: str
    encode: Callable[[Collector], bytes]

    @property
    def is_openmetrics(self) -> bool:
        """Tell whether it is OpenMetrics, else Prometheus' own."""
        return self.content_type.startswith("application/openmetrics-text")

    def process_text(self) -> bytes:
        """Give the text of the process, with the last line of the format. Blocking: reads of /proc."""
        return self.encode(_PROCESS)


def format_for(accept: str) -> Format:
    """Choose the format that is asked for; the plain one for a version that is none, at which the library trips."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):
        encode, content_type = choose_encoder("")
    return Format(content_type, encode)
