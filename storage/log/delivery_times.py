"""Times of delivery in words, and the warning of those that are so long past that retention takes them at once."""

from __future__ import annotations

import logging
from time import gmtime, strftime
from typing import Final

from storage.types import TopicPartition

_YEAR_10000_MS: Final = 253_402_300_800_000

logger: Final = logging.getLogger(__name__)


def in_words(time_ms: int) -> str:
    """Write a time as it was sent, and as a date where there is one."""
    if not 0 <= time_ms < _YEAR_10000_MS:
        return str(time_ms)
    return f"{time_ms} ({strftime('%Y-%m-%d %H:%M:%S', gmtime(time_ms // 1000))} UTC)"


def warn_of_expired(tp: TopicPartition, time_ms: int, retention_ms: int) -> None:
    """Say that a client has sent a batch that retention takes at once, and why that may be."""
    logger.warning(
        "records whose time is so long past may be deleted soon, read or not: retention counts from it; was it sent in "
        "seconds, or as a delay, instead of in milliseconds since 1970? partition=%s time=%s retention_ms=%d",
        tp,
        in_words(time_ms),
        retention_ms,
    )
