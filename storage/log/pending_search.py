"""The next pending batch of a scheduled log, looked for beside its owner: planned there, run in any thread.

It is the first batch from an offset on whose largest timestamp is later than a moment. Segments and stretches that hold
nothing later are passed over by what the time indexes say; the rest is walked, headers only. What it comes to counts if
the owner finds that it `still_holds`. See log.views for what it may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.records.errors import CorruptBatch
from storage.env.fs import FileSystem
from storage.errors import CorruptRecord, LogClosed, StorageFailure
from storage.log.state import LogState
from storage.log.views import LogViews, position_in, time_index_of
from storage.segment.later import NO_STEPS_LIMIT, walk_until_later
from storage.segment.log_file import LogFile
from storage.segment.names import LOG_SUFFIX
from storage.segment.segment import Segment
from storage.segment.view import SegmentView

MAX_SEGMENTS: Final = 1024
"""To write one down is a microsecond or two of the owner's time; where there are more the next search goes on."""


class Found(NamedTuple):
    """What a search came to: everything below `offset` is due."""

    offset: int
    later: int | None
    """The time of the pending batch there; None where the files end, or what was planned."""
    at: tuple[Segment, int] | None
    """Where that batch begins."""


class PendingSearch:
    """One search. Immutable after construction."""

    __slots__ = ("_end_offset", "_fs", "_limit", "_offset", "_position", "_segments", "_views", "now_ms")

    def __init__(self, state: LogState, offset: int, at: tuple[Segment, int] | None, limit: int, now_ms: int) -> None:
        self._fs: FileSystem = state.fs
        self.now_ms = now_ms
        self._limit = limit
        self._offset = offset
        segments = state.segments.starting_with(offset)
        count = min(len(segments), MAX_SEGMENTS)
        if state.write_queue.files:
            count = _count_in_files(segments[:count], state.write_queue.files[0])
        self._segments = segments[:count]
        self._end_offset = segments[count].base_offset if count < len(segments) else state.offsets.log_end_offset
        is_known = at is not None and at[0] is self._segments[0]
        self._position = at[1] if at is not None and is_known else None
        self._views = LogViews(state, self._segments)

    def still_holds(self, state: LogState) -> bool:
        """Tell whether what was planned on is still there; on the owner's side."""
        return self._views.still_hold(state)

    def run(self) -> Found:
        """Look for it.

        Raises: LogClosed when a file is not there any more; StorageFailure, CorruptRecord. Blocking: disk, cpu; any
        thread.
        """
        path = self._views.path
        try:
            return self._find()
        except FileNotFoundError as error:
            raise LogClosed(f"{path}: {error}") from error
        except OSError as error:
            raise StorageFailure(f"cannot look for what is due in {path}: {error}", path) from error
        except CorruptBatch as error:
            raise CorruptRecord(f"{path}: {error}") from error

    def _find(self) -> Found:
        offset, at = self._offset, None
        for number, view in enumerate(self._views.all):
            offset = max(offset, view.base_offset)
            found = self._look_into(number, view, offset)
            if found.later is not None:
                return found
            offset, at = found.offset, found.at
        return Found(offset, None, at)

    def _look_into(self, number: int, view: SegmentView, offset: int) -> Found:
        """Walk one segment from the batch on that ends at or above `offset`."""
        segment, limit, views = self._segments[number], self._limit, self._views.all
        known_due, largest = view.base_offset, view.largest_timestamp
        with time_index_of(self._fs, view) as time_index:
            if time_index is not None:
                known_due = time_index.lookup(limit)[1]
                if largest is None:
                    largest = time_index.last_timestamp
        if largest is not None and largest <= limit:
            return Found(views[number + 1].base_offset if number + 1 < len(views) else self._end_offset, None, None)
        file = LogFile(self._fs, view.path(LOG_SUFFIX), view.log_bytes)
        try:
            position = self._position if number == 0 else 0
            if position is None or known_due > offset:
                wanted = max(known_due, offset)
                position = file.find_batch(wanted, position_in(self._fs, view, wanted))
            if position is None:
                return Found(offset, None, (segment, view.log_bytes))
            walk = walk_until_later(file, position, offset, limit, NO_STEPS_LIMIT)
        finally:
            file.close()
        return Found(walk.next_offset, walk.later, (segment, walk.position))


def _count_in_files(segments: Sequence[Segment], unwritten: LogFile) -> int:
    """Count the segments up to the first that is in memory in part: what it has there must not be passed unread."""
    for number, segment in enumerate(segments, 1):
        if segment.log is unwritten:
            return number
    return len(segments)
