"""What is found, and what a broker's start does about each kind of it.

A fault is what no stop of a broker leaves, clean or not. A note is what an unclean stop may leave and the next start
mends, or a leftover that the start takes away; it is no reason to worry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

MAX_OF_A_KIND = 10
"""Findings of one kind in one file that are told one by one."""

_NOT_SEEN = "a clean start does not look at it"
_LOOKS_AT_LAST = "a clean start looks at the last entry only"

KINDS: dict[str, str] = {
    # Batches.
    "batch-crc": f"{_NOT_SEEN}, consumers get an error here; after an unclean stop the log is cut here",
    "batch-structure": f"{_NOT_SEEN}, nothing behind can be read; after an unclean stop the log is cut here",
    "batch-torn": f"{_NOT_SEEN}, the next append lands behind it; after an unclean stop the log is cut here",
    "batch-offsets": f"{_NOT_SEEN}; consumers see offsets twice or not at all",
    "batch-epoch": f"{_NOT_SEEN}; clients that ask for the end of an epoch are told a wrong offset",
    "records": f"{_NOT_SEEN}; consumers fail at this batch",
    "records-count": f"{_NOT_SEEN}; consumers fail at this batch",
    "record-times": f"{_NOT_SEEN}; lookups by time miss records",
    "control": f"{_NOT_SEEN}; readers of committed data fail at this batch",
    "record-decode": "who replays this topic at the start stops or skips the record",
    "producer-sequence": f"{_NOT_SEEN}; records of a producer are there twice, or missing",
    "producer-epoch": f"{_NOT_SEEN}; a producer that was fenced has written",
    "unused-space": "cut",
    # Segments.
    "segment-gap": f"{_NOT_SEEN}; what was there is lost, unless it was never durable when the machine stopped",
    "segment-overlap": f"{_NOT_SEEN}; lookups find one of two batches of an offset",
    "segment-missing": "removed, as what belongs to no segment",
    # Indexes.
    "index-size": "rebuilt from the log",
    "index-order": f"{_LOOKS_AT_LAST}; lookups go wrong",
    "index-position": f"{_LOOKS_AT_LAST}; lookups read from the middle of a batch",
    "index-offset": f"{_LOOKS_AT_LAST}; lookups miss their batch",
    "index-missing": "rebuilt from the log",
    "timeindex-size": "rebuilt from the log",
    "timeindex-order": f"{_LOOKS_AT_LAST}; lookups by time go wrong",
    "timeindex-entry": f"{_LOOKS_AT_LAST}; lookups by time go wrong",
    "timeindex-incomplete": f"{_NOT_SEEN}; lookups by time miss the newest records of the segment",
    "timeindex-missing": "rebuilt from the log",
    "txnindex": "rebuilt from the log if malformed; else readers of committed data see the wrong transactions",
    # What stands beside the segments.
    "snapshot": "removed; an older one is used, and the log replayed from there",
    "snapshot-state": "taken as it is; producers may be refused, or their records be written twice",
    "leader-epochs": f"{_NOT_SEEN}, or ignores it where it is malformed",
    "partition-metadata": "the broker refuses the log, or sets it aside",
    "checkpoint": "ignored; every log of the directory is recovered",
    "checkpoint-offset": "corrected to what the log holds",
    "checkpoint-unknown": "left out of the next checkpoint",
    # Directories.
    "identity": "the broker does not start",
    "duplicate-log": "the broker does not start, or sets one of them aside",
    "missing-log": "an empty log is made",
    "stray-log": "set aside",
    "metadata-snapshot": "the broker does not start, or uses an older snapshot",
    "quorum-state": "the broker does not start",
    "clean-shutdown": "taken for a clean stop: its presence alone counts",
    "leftover": "removed, or the work it is of is finished",
    "unreadable": "the broker takes the directory offline",
}
"""Kind → what a start makes of it."""

_CUT = "recovery cuts the log here"
_REBUILT = "recovery makes it anew"
RECOVERED: dict[str, str] = {
    **dict.fromkeys(("batch-crc", "batch-structure", "batch-torn", "batch-offsets", "segment-gap"), _CUT),
    **dict.fromkeys(("batch-epoch", "leader-epochs", "txnindex", "snapshot", "snapshot-state"), _REBUILT),
    **dict.fromkeys((kind for kind in KINDS if kind.startswith(("index-", "timeindex-"))), _REBUILT),
    "segment-overlap": _CUT,
}
"""Kind → what recovery makes of it, where an unclean stop may have left it."""


class Finding(NamedTuple):
    """One line."""

    is_fault: bool
    kind: str
    path: str
    position: int | None
    what: str

    @property
    def at_start(self) -> str:
        """What becomes of it."""
        return KINDS[self.kind] if self.is_fault else RECOVERED.get(self.kind, KINDS[self.kind])

    def line(self) -> str:
        """Say it in one line."""
        place = self.path if self.position is None else f"{self.path}:{self.position}"
        word = "fault" if self.is_fault else "note"
        return f"{word}: {place}: {self.what} [{self.kind}]; at a start: {self.at_start}"

    def fields(self) -> dict[str, Any]:
        """Say it as JSON."""
        return {
            "type": "fault" if self.is_fault else "note",
            "kind": self.kind,
            "path": self.path,
            "position": self.position,
            "what": self.what,
            "atStart": self.at_start,
        }


class Findings:
    """Gathers findings; of very many of one kind in one file it keeps some and counts the others."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._counts: Counter[tuple[bool, str, str]] = Counter()

    def fault(self, kind: str, path: str, what: str, position: int | None = None, *, is_excused: bool = False) -> None:
        """Take up a fault; an excused one, which an unclean stop explains, is a note."""
        key = (not is_excused, kind, path)
        self._counts[key] += 1
        if self._counts[key] <= MAX_OF_A_KIND:
            self._found.append(Finding(not is_excused, kind, path, position, what))

    def note(self, kind: str, path: str, what: str, position: int | None = None) -> None:
        """Take up what is no fault."""
        self.fault(kind, path, what, position, is_excused=True)

    def unreadable(self, path: str, error: OSError) -> None:
        """Take up what the system says of a file or folder that cannot be read."""
        self.fault("unreadable", error.filename or path, str(error.strerror))

    def take(self, found: Iterable[Finding]) -> None:
        """Take up what somebody else has gathered."""
        self._found += found

    def all(self) -> list[Finding]:
        """Return what was kept, with a line for what was not."""
        more = [
            Finding(is_fault, kind, path, None, f"{count - MAX_OF_A_KIND} more of the kind")
            for (is_fault, kind, path), count in self._counts.items()
            if count > MAX_OF_A_KIND
        ]
        return self._found + more
