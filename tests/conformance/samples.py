"""The records that every client sends and must find again."""

from __future__ import annotations

from typing import NamedTuple

# Two seconds apart, so that a look-up by time can land on each record and between two.
FIRST_TIMESTAMP_MS = 1_700_000_000_000
TIMESTAMP_STEP_MS = 2_000

PARTITIONS = {0, 1, 2, 3}
# Joining, leaving and being told of it each take up to one heartbeat interval (3 s by default).
REBALANCE_TIMEOUT_S = 60


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


def _sample(index: int) -> Sample:
    # A null value needs a key in some clients, so no record is without both.
    return Sample(
        key=None if index % 7 == 0 else f"key-{index}".encode(),
        value=None if index % 7 == 3 else f"value-{index} ".encode() + b"x" * (200 + index),
        headers=[("index", str(index).encode()), ("empty", b"")] if index % 3 == 0 else [],
        timestamp_ms=FIRST_TIMESTAMP_MS + index * TIMESTAMP_STEP_MS,
    )


SAMPLES = [_sample(index) for index in range(100)]
