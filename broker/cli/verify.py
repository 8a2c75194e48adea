"""`odradek verify <directory> …`: the faults of log directories, of a stopped broker or of a copy; one line each.

Exit status 1 if there is a fault, 2 if nothing can be said of them. Notes, which are states that an unclean stop leaves
and the next start mends, do not change it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from broker.cli.errors import CommandError
from broker.cli.options import Parser
from broker.cli.output import print_json, print_lines
from broker.cli.progress import Progress, short
from broker.offline.plain_files import PlainFiles
from broker.offline.verify.run import CannotVerify, Verification, Verified

TEXT = (
    "Check log directories of a broker that is stopped, or copies of them: every batch and record, index, snapshot and "
    "checkpoint, and whether they fit together. Nothing is written. Name all directories of a broker at once, so that "
    "what one says of another can be checked; the folder of one partition is checked by itself. "
    "Exit status: 0 without faults, 1 with faults, 2 if nothing could be checked: a directory that is missing or in "
    "use by a broker, or a command line that is not understood."
)
FAULTS = 1
CANNOT_VERIFY = 2


def run(arguments: Sequence[str]) -> int:
    """Check the directories; the exit status tells of faults. Raises: CommandError when they cannot be checked."""
    parser = Parser("verify", TEXT, misuse_status=CANNOT_VERIFY)
    parser.add_argument(
        "directories", nargs="+", metavar="directory", help="an entry of log.dirs, or a partition's folder"
    )
    parser.add_argument("--topic", action="append", default=[], help="only logs of this topic; may be repeated")
    parser.add_argument(
        "--jobs", type=int, default=_processors(), help="processes to share the work (default: all processors)"
    )
    parser.add_argument(
        "--force", action="store_true", help="do not mind a running broker; what it is writing looks damaged"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, an object a line")
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    try:
        work = Verification(
            PlainFiles(),
            options.directories,
            topics=options.topic,
            jobs=options.jobs,
            is_forced=options.force,
        )
        with Progress("verifying", work.size_bytes) as progress:
            verified = work.run(progress.advance)
    except CannotVerify as error:
        raise CommandError(str(error), status=CANNOT_VERIFY) from error
    _print(verified, time.monotonic() - began_s, as_json=options.json)
    return FAULTS if verified.fault_count else 0


def _print(verified: Verified, duration_s: float, *, as_json: bool) -> None:
    notes = len(verified.findings) - verified.fault_count
    numbers = {
        "logs": len(verified.results),
        "segments": sum(result.segments for result in verified.results),
        "batches": sum(result.batches for result in verified.results),
        "records": sum(result.records for result in verified.results),
        "bytes": sum(result.size_bytes for result in verified.results),
    }
    if as_json:
        for finding in verified.findings:
            print_json(finding.fields())
        totals = {"faults": verified.fault_count, "notes": notes, "seconds": round(duration_s, 3)}
        print_json({"type": "summary", **numbers, **totals})
        return
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    print_lines(finding.line() for finding in verified.findings)
    counts = ", ".join(f"{count} {name}" for name, count in numbers.items())
    rate = short(numbers["bytes"] / max(duration_s, 1e-3))
    print_lines([f"{counts} in {duration_s:.1f} s ({rate}B/s): {verified.fault_count} faults, {notes} notes"])


def _processors() -> int:
    return len(os.sched_getaffinity(0))
