"""Run the fixed set beside its stored ratios, or the other benchmarks; a target is shown, never enforced.

``python -m tests.bench [--record]``: the fixed set; ``--only produce fetch footprint recovery ...`` or ``--all``: min,
median and max of every quantity of the others. ``--rounds N`` and ``--directory DIR`` go with each, ``--seconds S``
with ``lateness``, of which a round takes a minute a client otherwise.
"""

import argparse
import functools
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import (
    compaction,
    fetch,
    footprint,
    groups,
    lateness,
    move,
    produce,
    ratios,
    recovery,
    restart,
    scheduled,
    scrape,
    transactions,
    writeback,
)
from tests.bench.load import HEADING, cores, scratch

PARTS = {
    "footprint": footprint.run,
    "produce": produce.run,
    "fetch": fetch.run,
    "recovery": recovery.run,
    "restart": restart.run,
    "scrape": scrape.run,
    "compaction": compaction.run,
    "writeback": writeback.run,
    "move": move.run,
    "heartbeats": groups.heartbeats,
    "rebalances": groups.rebalances,
    "commits": groups.commits,
    "transactions": transactions.run,
    "lateness": lateness.run,
    "scheduled": scheduled.run,
}


def main() -> int:
    """Parse the arguments, pin the load, run the parts one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    chosen_parts = parser.add_mutually_exclusive_group()
    chosen_parts.add_argument("--record", action="store_true", help="store the ratios of the fixed set")
    chosen_parts.add_argument("--only", nargs="+", choices=PARTS, default=[], help="run other parts")
    chosen_parts.add_argument("--all", action="store_true", help="run all other parts")
    parser.add_argument("--seconds", type=float, default=60, help="over how long lateness spreads its records")
    parser.add_argument("--directory", help="where the data goes (default: the temporary directory)")
    options = parser.parse_args()
    chosen = cores()
    if chosen:
        os.sched_setaffinity(0, {chosen[0]})
        print(f"load on core {chosen[0]}, broker and bare loops on core {chosen[1]}, {options.rounds} rounds")
    else:
        print(f"one core only: the load competes with the broker, {options.rounds} rounds")
    measured = {**PARTS, "lateness": functools.partial(lateness.run, seconds=options.seconds)}
    parts = list(PARTS) if options.all else options.only
    if not parts:
        with scratch(options.directory) as directory:
            ratios.run(directory, options.rounds, is_recorded=options.record)
        return 0
    print(HEADING)
    for name in parts:
        with scratch(options.directory) as directory:
            for result in measured[name](directory, options.rounds):
                print(result.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
