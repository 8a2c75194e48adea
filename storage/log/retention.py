"""Which of the oldest segments of a log may go, and why. Decisions only: nothing here is changed or deleted.

Three passes in this order, each going on where the one before stopped, from the oldest segment to the first that must
stay:

1. log start: the segment lies wholly below the log start, so another one follows; the only pass of a log whose policy
   has no `delete`;
2. size: without the segment the log would still have retention.bytes, the active segment counted;
3. time: the segment's newest record is older than retention.ms, strictly. Its modification time counts when no record
   has a timestamp. One late or future record so pins its segment, and with it every later one.

Never beyond what is replicated and, on a scheduled topic, released; and an empty active segment stays. When everything
may go, a new active segment must be rolled first: then an expired active segment goes like any other, though nothing is
appended.
Source: Kafka's UnifiedLog.deleteOldSegments, deletableSegments.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from config.views import LogConfig

MAX_SEGMENTS_PER_DECISION = 32
"""Looking at a segment that has been idle reads the ends of its index files, some 50 µs; more go with the next look."""

FUTURE_TOLERANCE_MS = 3_600_000
"""Newest records further ahead of the clock than this are worth a line: by default they would have been refused."""


class Reason(Enum):
    """Why a segment may go; the value is the metric's label."""

    LOG_START = "log_start"
    SIZE = "size"
    TIME = "time"


class Candidate(Protocol):
    """What is asked of a segment."""

    @property
    def base_offset(self) -> int:
        """First offset it may hold."""

    @property
    def size(self) -> int:
        """Bytes of batches."""

    def retention_timestamp(self) -> int:
        """Time of the newest record, else of the last modification. May read the disk, so it is asked late."""


class Ends(NamedTuple):
    """The offsets that bound a decision."""

    log_start_offset: int
    released_end: int
    """Of what is replicated, and has come due where delivery is scheduled."""
    log_end_offset: int


class Decision(NamedTuple):
    """The oldest segments that may go, a reason for each, and whether a new active segment comes first."""

    reasons: tuple[Reason, ...]
    needs_roll: bool
    future_timestamp: int | None
    """Newest timestamp of the segment that ended the time pass, where it lies oddly far ahead of the clock."""


def deletable(segments: Sequence[Candidate], ends: Ends, config: LogConfig, now_ms: int) -> Decision:
    """Decide about at most MAX_SEGMENTS_PER_DECISION of a log's segments, all of them given with the oldest first.

    Whoever gets so many asks again. Raises: what retention_timestamp raises.
    """
    walk = _Walk(segments, ends)
    walk.take_below_log_start()
    future_timestamp = None
    if config.is_delete:
        if config.retention_bytes >= 0:
            walk.take_by_size(config.retention_bytes)
        if config.retention_ms >= 0:
            future_timestamp = walk.take_by_time(now_ms, config.retention_ms)
    return Decision(tuple(walk.reasons), len(walk.reasons) == len(segments), future_timestamp)


class _Walk:
    """One way from the oldest segment forward; a pass goes on where the one before stopped."""

    __slots__ = ("_ends", "_limit", "_segments", "reasons")

    def __init__(self, segments: Sequence[Candidate], ends: Ends) -> None:
        self._segments = segments
        self._ends = ends
        self._limit = min(len(segments), MAX_SEGMENTS_PER_DECISION)
        self.reasons: list[Reason] = []

    def take_below_log_start(self) -> None:
        while self._next() is not None:
            following = self._segments[len(self.reasons) + 1 : len(self.reasons) + 2]
            if not following or following[0].base_offset > self._ends.log_start_offset:
                return
            self.reasons.append(Reason.LOG_START)

    def take_by_size(self, retention_bytes: int) -> None:
        excess_bytes = sum(segment.size for segment in self._segments[len(self.reasons) :]) - retention_bytes
        while (segment := self._next()) is not None and excess_bytes >= segment.size:
            excess_bytes -= segment.size
            self.reasons.append(Reason.SIZE)

    def take_by_time(self, now_ms: int, retention_ms: int) -> int | None:
        """Take the expired ones; return the newest timestamp of the one that stays if it lies in the odd future."""
        while (segment := self._next()) is not None:
            timestamp = segment.retention_timestamp()
            if now_ms - timestamp <= retention_ms:
                return timestamp if timestamp - now_ms > FUTURE_TOLERANCE_MS else None
            self.reasons.append(Reason.TIME)
        return None

    def _next(self) -> Candidate | None:
        """Return the oldest segment that is left if it may be looked at."""
        at = len(self.reasons)
        if at >= self._limit:
            return None
        segment = self._segments[at]
        is_last = at + 1 == len(self._segments)
        upper_bound = self._ends.log_end_offset if is_last else self._segments[at + 1].base_offset
        if upper_bound > self._ends.released_end or (is_last and not segment.size):
            return None
        return segment
