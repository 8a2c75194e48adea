"""OpenFiles: a bound on the segments of all logs together that hold open files.

An open segment keeps up to FILES_PER_SEGMENT descriptors. One that is not used costs nothing to close and some ten
microseconds to open again, so a broker may have any number of partitions on few descriptors. Whoever opens one segment
too many gives back the one that was opened first, unless it has grown since: that one is in use and comes last again.

Only the thread that owns the logs gives files back, since only it may do without them at any time: readers and plans in
other threads pin what they hold, or open the files by name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

FILES_PER_SEGMENT: Final = 5
"""The `.log`, a second handle of it for direct writes, and three indexes."""


class OpenSegment(Protocol):
    """What is known of a segment here."""

    @property
    def size(self) -> int:
        """Bytes of batches."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Tell whether something is still to be written to its files."""
        ...

    def release_files(self) -> None:
        """Give back the descriptors; the next use opens the files again."""
        ...


class OpenFiles:
    """The segments that have files open, those opened or used last at the end."""

    __slots__ = ("_is_owner", "_sizes", "max_segments")

    def __init__(self, max_segments: int | None = None, is_owner: Callable[[], bool] = lambda: True) -> None:
        self.max_segments = max_segments  # None: no bound
        self._is_owner = is_owner  # asks whether the caller is the thread that owns the logs
        self._sizes: OrderedDict[OpenSegment, int] = OrderedDict()  # how large each was when it was last looked at

    def __len__(self) -> int:
        return len(self._sizes)

    def note_open(self, segment: OpenSegment) -> None:
        """Count a segment that opens one of its files, and close others if they are too many."""
        self._sizes[segment] = segment.size
        if self.max_segments is not None and len(self._sizes) > self.max_segments and self._is_owner():
            self._trim(self.max_segments, kept=segment)

    def release_none(self) -> None:
        """Give back no files for others' sake any more: from now on other threads have the logs, and close them."""
        self.max_segments = None

    def note_closed(self, segment: OpenSegment) -> None:
        """Count a segment no longer."""
        self._sizes.pop(segment, None)

    def _trim(self, max_segments: int, *, kept: OpenSegment) -> None:
        """Close segments, each looked at twice at most: once to see that it has grown, once more to find it idle."""
        for _ in range(2 * len(self._sizes)):
            segment, size = self._sizes.popitem(last=False)
            if segment is kept or segment.is_waiting or segment.size != size:
                self._sizes[segment] = segment.size
                continue
            segment.release_files()
            if len(self._sizes) <= max_segments:
                return


class Counted:
    """The part of one segment in the count: its files say here when they are opened, and when none is open."""

    __slots__ = ("_open_files", "_segment")

    def __init__(self, open_files: OpenFiles, segment: OpenSegment) -> None:
        self._open_files = open_files
        self._segment = segment

    def opened(self) -> None:
        """Count the segment, also where nothing but an index of it is looked at."""
        self._open_files.note_open(self._segment)

    def closed(self) -> None:
        """Count the segment no longer."""
        self._open_files.note_closed(self._segment)
