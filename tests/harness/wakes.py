"""Something that waits at partitions and only notes what wakes it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Wakes:
    """What has woken us so far."""

    def __init__(self) -> None:
        self.changed: set[Any] = set()

    def wake(self, source: Hashable) -> None:
        """Note that `source` has changed."""
        self.changed.add(source)
