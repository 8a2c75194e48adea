"""What came in and went out in the last minutes."""

from __future__ import annotations

from broker.status.model import Series
from broker.status.parts import Parts
from broker.status.samples import INTERVAL_MS

_SERIES = (("Records in", ""), ("Bytes in", "B"), ("Bytes out", "B"), ("Requests", ""), ("Errors", ""))
"""Name and unit of the first fields of a sample."""


def read_traffic(parts: Parts) -> tuple[Series, ...]:
    """Turn the ring of samples into a series a measure."""
    samples = tuple(parts.samples.ring)
    return tuple(
        Series(name, unit, tuple(sample[number] for sample in samples), INTERVAL_MS / 1000)
        for number, (name, unit) in enumerate(_SERIES)
    )
