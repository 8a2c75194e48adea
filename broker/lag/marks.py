"""Marks: where a partition ended at the times somebody looked, which bounds when a record became readable.

The times of records are what producers say, and those may be wrong: a clock that is off, records of last year that are
loaded today. What was seen here is not. A mark is an end with the first and the last time it was seen; the record at an
offset came after the last time the end was at or below it, and before the first time it was above.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

MAX_MARKS = 64
"""Of a partition. Beyond it every second one of the older half goes, so they get rarer the older they are."""


class Marks:
    """The marks of one partition, ascending in offsets and in times."""

    __slots__ = ("_ends", "_first_ms", "_last_ms")

    def __init__(self) -> None:
        self._ends = array("q")
        self._first_ms = array("q")
        self._last_ms = array("q")

    def note(self, end: int, now_ms: int) -> None:
        """Take note of where the partition ends now. After a clock was set back, or a log cut, all begins anew."""
        ends = self._ends
        if ends and (end < ends[-1] or now_ms < self._last_ms[-1]):
            del ends[:], self._first_ms[:], self._last_ms[:]
        if ends and end == ends[-1]:
            self._last_ms[-1] = now_ms
            return
        for column, value in ((ends, end), (self._first_ms, now_ms), (self._last_ms, now_ms)):
            column.append(value)
        if len(ends) > MAX_MARKS:
            for column in (ends, self._first_ms, self._last_ms):
                del column[1 : MAX_MARKS // 2 : 2]

    def bounds(self, offset: int) -> tuple[int | None, int | None]:
        """Return the times between which the record at an offset came, as far as they are known."""
        at = bisect_right(self._ends, offset)
        after_ms = self._last_ms[at - 1] if at else None
        before_ms = self._first_ms[at] if at < len(self._ends) else None
        return after_ms, before_ms

    def __len__(self) -> int:
        return len(self._ends)
