"""What a planned command is: records to append, and the answer once they are committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")

MAX_RECORDS_PER_COMMAND = 10_000
"""Records of one command stand in one batch, all or none; the bound is Kafka's."""

Charge = Callable[[int], bool]
"""Charges partitions that are to be created or deleted to whoever asks for it; False: the quota is exceeded."""


def uncharged(partitions: int) -> bool:
    """Let anybody change anything."""
    return True


class Plan(NamedTuple, Generic[R]):
    """The outcome of planning a command on an image: nothing has happened yet."""

    records: list[object]
    result: R
