"""Scheduled topics under load: what pending batches cost, how punctual and how smooth their release is.

One file each for pending batches in many partitions, for parked long polls, for one pending batch behind a long log,
and for what produce and fetch pay.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.bench.load import Result
from tests.bench.scheduled import cost, long_log, pending, polls


def run(directory: Path, rounds: int) -> Iterator[Result]:
    """Run all, which takes some minutes; all but the costs are measured once, on brokers of their own."""
    yield from pending.run(directory)
    yield from polls.run(directory)
    yield from long_log.run(directory)
    yield from cost.run(directory, rounds)
