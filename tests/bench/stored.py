"""Ratios to bare loops as they are kept in the repository: read, written, and set beside those of today.

A ratio is of one machine and one way to run, so the file says both. It is no test's mark: another machine gives other
numbers, and what is to be seen is whether they fell since they were stored.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

HEADING = f"{'ratio to the bare loop, %':<45} {'min':>7} {'median':>7} {'max':>7}   {'stored':>7} {'min - max':>15}"


class Spread(NamedTuple):
    """The rounds of one ratio, in percent."""

    low: float
    median: float
    high: float


class Stored(NamedTuple):
    """What the file says: how and where its numbers came about, and the numbers."""

    facts: Mapping[str, str]
    ratios: Mapping[str, Spread]


def spread_of(samples: Sequence[float]) -> Spread:
    """Sum up the rounds."""
    return Spread(min(samples), statistics.median(samples), max(samples))


def has_fallen(now: Spread, then: Spread) -> bool:
    """Tell whether a ratio is lower than the stored one by more than the rounds of either differ among themselves."""
    return then.median - now.median > max(now.high - now.low, then.high - then.low)


def line(name: str, now: Spread, then: Spread | None) -> str:
    """Set one ratio beside the stored one."""
    text = f"{name:<45} {now.low:>7.1f} {now.median:>7.1f} {now.high:>7.1f}"
    if then is None:
        return f"{text}   {'new':>7}"
    text += f"   {then.median:>7.1f} {f'{then.low:.1f} - {then.high:.1f}':>15}"
    return f"{text}  FELL" if has_fallen(now, then) else text


def encode(stored: Stored) -> str:
    """Write the file's text: one ratio a line, so that a change shows as one."""
    facts = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in stored.facts.items())
    ratios = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps({part: round(value, 1) for part, value in spread._asdict().items()})}"
        for name, spread in stored.ratios.items()
    )
    return f'{{\n{facts}  "ratios": {{\n{ratios}\n  }}\n}}\n'


def decode(text: str) -> Stored:
    """Read the file's text."""
    values = json.loads(text)
    ratios = {name: Spread(**spread) for name, spread in values.pop("ratios").items()}
    return Stored(values, ratios)
