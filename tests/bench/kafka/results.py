"""What was measured: samples of both brokers under a key each, kept as JSON, into which later runs merge.

`<row>` has the row's own quantity; `<row>.cpu` the broker's processor seconds per million records of the same work.
Each key says of itself when it was measured, at which commit, and what failed.
"""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CPU = ".cpu"


@dataclasses.dataclass(slots=True)
class Measured:
    """The samples of one key, by broker, and where they come from."""

    samples: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    failures: list[str] = dataclasses.field(default_factory=list)
    commit: str = ""
    date: str = ""
    command: str = ""

    def median(self, side: str) -> float | None:
        """Give the median of a broker's samples, if there are any."""
        found = self.samples.get(side)
        return statistics.median(found) if found else None

    def spread(self, side: str) -> tuple[float, float] | None:
        """Give the least and the most."""
        found = self.samples.get(side)
        return (min(found), max(found)) if found else None

    @property
    def rounds(self) -> int:
        """Count the samples that each side has at least."""
        return min((len(samples) for samples in self.samples.values()), default=0)

    def ratio(self, ours: str, theirs: str) -> float | None:
        """Give the ratio of the medians, if both are there; that of nothing to nothing is 1."""
        mine, other = self.median(ours), self.median(theirs)
        if mine is None or other is None:
            return None
        return mine / other if other else 1.0 if mine == other else math.inf


class Results:
    """All keys of a run or of a file."""

    def __init__(self, keys: Mapping[str, Measured] | None = None, facts: Mapping[str, str] | None = None) -> None:
        self.keys = dict(keys or {})
        self.facts = dict(facts or {})

    def note(self, key: str, side: str, value: float) -> None:
        """Add a sample."""
        self.keys.setdefault(key, Measured()).samples.setdefault(side, []).append(value)

    def fail(self, key: str, text: str) -> None:
        """Say that a sample is missing, and why."""
        self.keys.setdefault(key, Measured()).failures.append(text)

    def failures_of(self, key: str) -> list[str]:
        """Give what has kept a key from being measured: failures of its workload, whose name it begins with."""
        return [text for name, one in self.keys.items() if key.startswith(name) for text in one.failures]

    def extend(self, more: "Results") -> None:
        """Add the samples of another part of the same run."""
        for key, measured in more.keys.items():
            for side, samples in measured.samples.items():
                for value in samples:
                    self.note(key, side, value)
            for text in measured.failures:
                self.fail(key, text)

    def stamp(self, *, commit: str, date: str, command: str) -> None:
        """Say of all keys where they come from."""
        for measured in self.keys.values():
            measured.commit, measured.date, measured.command = commit, date, command

    def merge(self, later: "Results") -> None:
        """Take over each key of a later run as a whole: samples of two runs are never mixed."""
        self.keys.update(later.keys)
        self.facts.update(later.facts)

    def to_json(self) -> str:
        """Write all of it."""
        keys = {key: dataclasses.asdict(measured) for key, measured in sorted(self.keys.items())}
        return json.dumps({"facts": self.facts, "keys": keys}, indent=1) + "\n"


def from_json(text: str) -> Results:
    """Read what `to_json` has written."""
    stored: Any = json.loads(text)
    return Results({key: Measured(**row) for key, row in stored["keys"].items()}, stored["facts"])


def load(path: Path) -> Results:
    """Read a file; one that is not there has nothing."""
    return from_json(path.read_text(encoding="utf-8")) if path.exists() else Results()


def save(path: Path, results: Results) -> None:
    """Replace a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(results.to_json(), encoding="utf-8")
    fresh.replace(path)
