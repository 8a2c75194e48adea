"""The two goals against bare loops: the parts of ``make bench`` that have them, in a process that keeps to its core.

``python -m tests.bench.kafka.bare DIRECTORY ROUNDS`` prints the samples as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.bench import fetch, produce
from tests.bench.kafka.brokers import BARE, OURS
from tests.bench.kafka.results import Results
from tests.bench.load import Result, cores
from tests.harness.broker import ROOT

NAME = "bare"
PARTS = {"produce": produce.run, "fetch": fetch.run}
MOST_ROUNDS = 3
_RATIO = "ratio"


def pairs(part: str, found: list[Result]) -> Results:
    """Pick what stands before each ratio: our samples, then those of the bare loop."""
    results = Results()
    for index, one in enumerate(found):
        if one.name.strip() == _RATIO:
            ours, theirs = found[index - 2], found[index - 1]
            key = f"{NAME}-{part}-{sum(name.startswith(f'{NAME}-{part}') for name in results.keys) + 1}"
            for side, samples in ((OURS, ours.samples), (BARE, theirs.samples)):
                for value in samples:
                    results.note(key, side, value)
    return results


def measure(directory: Path, rounds: int) -> Results:
    """Run the parts and give their pairs; what fails is said."""
    results = Results()
    command = [sys.executable, "-m", "tests.bench.kafka.bare", str(directory), str(rounds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        results.fail(f"{NAME}-produce-1", done.stderr.strip().rpartition("\n")[2])
        return results
    for key, by_side in json.loads(done.stdout).items():
        for side, samples in by_side.items():
            for value in samples:
                results.note(key, side, value)
    return results


def main() -> None:
    """Measure in this process."""
    directory, rounds = Path(sys.argv[1]), int(sys.argv[2])
    chosen = cores()
    if chosen:
        os.sched_setaffinity(0, {chosen[0]})
    results = Results()
    for part, run in PARTS.items():
        (directory / part).mkdir()
        results.extend(pairs(part, run(directory / part, rounds)))
    print(json.dumps({key: measured.samples for key, measured in results.keys.items()}))


if __name__ == "__main__":
    main()
