"""The next pending batch of a scheduled log, looked for beside its owner: planned there, run in any thread.

It is the first batch from an offset on whose largest timestamp is later than a moment. Segments and stretches that hold
nothing later are passed over by what the time indexes say; the rest is walked, headers only. It ends where something
cannot be read, after it has tried what the owner has no time for. What it comes to counts if the owner finds that it
`still_holds`. See log.views for what it may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from config.views import LONG_MAX
from protocol.records.errors import CorruptBatch
from storage.env.fs import FileSystem
from storage.errors import CorruptIndex, LogClosed
from storage.log.state import LogState
from storage.log.views import LogViews, position_in, time_index_of
from storage.segment.later import NO_STEPS_LIMIT, Bounds, lead_by, walk_until_later
from storage.segment.log_file import LogFile
from storage.segment.names import LOG_SUFFIX
from storage.segment.segment import Segment
from storage.segment.time_check import is_contradicted
from storage.segment.view import SegmentView, TimesFrom

MAX_SEGMENTS: Final = 1024
"""To write one down is a microsecond or two of the owner's time; where there are more the next search goes on."""


class Found(NamedTuple):
    """What a search came to: everything below `offset` is due."""

    offset: int
    later: int | None
    """The time of the pending batch there; None where the files end, or what was planned."""
    at: tuple[Segment, int] | None
    """Where that batch begins, or what could not be read."""
    failure: str | None
    """Why the search has ended there, if something could not be read."""


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
        """Look for it. Raises: LogClosed when a file is not there any more. Blocking: disk, cpu; any thread."""
        found = Found(self._offset, None, None, None)
        try:
            for number, view in enumerate(self._views.all):
                found = self._look_into(number, view, max(found.offset, view.base_offset))
                if found.later is not None or found.failure is not None:
                    break
        except FileNotFoundError as error:
            raise LogClosed(f"{self._views.path}: {error}") from error
        return found

    def _look_into(self, number: int, view: SegmentView, offset: int) -> Found:
        """Walk one segment from the batch on that ends at or above `offset`."""
        segment, views = self._segments[number], self._views.all
        end_offset = views[number + 1].base_offset if number + 1 < len(views) else self._end_offset
        try:
            file = LogFile(self._fs, view.path(LOG_SUFFIX), view.log_bytes)
            try:
                is_due, entry = self._ask_times(file, view, end_offset)
                if is_due:
                    return Found(end_offset, None, None, None)
                begin = self._begin(file, view, offset, self._position if number == 0 else 0, entry)
                if begin is None:
                    return Found(offset, None, (segment, view.log_bytes), None)
                position, offset = begin
                walk = walk_until_later(file, position, offset, Bounds(self._limit, end_offset), NO_STEPS_LIMIT)
            finally:
                file.close()
        except FileNotFoundError:
            raise
        except (OSError, CorruptBatch) as error:
            return Found(offset, None, None, str(error))
        failure = None if walk.failure is None else str(walk.failure)
        return Found(walk.next_offset, walk.later, (segment, walk.position), failure)

    def _ask_times(self, file: LogFile, view: SegmentView, end_offset: int) -> tuple[bool, tuple[int, int] | None]:
        """Tell whether all of a segment is due, else by which entry of its time index it is so up to a batch."""
        if view.times_from is TimesFrom.DISPROVED:
            return False, None
        limit, largest, offset = self._limit, view.largest_timestamp, view.offset_of_largest
        if largest is not None and largest <= limit and view.times_from is TimesFrom.BATCHES:
            return True, None
        with time_index_of(self._fs, view) as time_index:
            if time_index is None:
                return False, None
            if largest is None:
                largest, offset = time_index.last_timestamp, time_index.last_offset
            if largest <= limit:
                positions = position_in(self._fs, view, offset), position_in(self._fs, view, LONG_MAX)
                return not is_contradicted(file, end_offset, (largest, offset), positions), None
            try:
                return False, time_index.lookup(limit)
            except CorruptIndex:
                return False, None

    def _begin(
        self, file: LogFile, view: SegmentView, offset: int, position: int | None, entry: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        """Return the position to walk from and below which offset all is due; None where the segment has no more."""
        if entry is not None and entry[1] > offset:
            with suppress(CorruptBatch):
                lead = lead_by(file, position_in(self._fs, view, entry[1]), entry)
                if lead is not None:
                    return lead.position, max(lead.next_offset, offset)
        if position is None:
            position = _find(file, offset, position_in(self._fs, view, offset))
        return None if position is None else (position, offset)


def _find(file: LogFile, offset: int, start: int) -> int | None:
    """Return where the first batch begins that ends at or above an offset, whether the index is right or not."""
    with suppress(CorruptBatch):
        position = file.find_batch(offset, start)
        if position is not None and file.header_at(position).base_offset <= offset:
            return position
    return file.find_batch(offset, 0)


def _count_in_files(segments: Sequence[Segment], unwritten: LogFile) -> int:
    """Count the segments up to the first that is in memory in part: what it has there must not be passed unread."""
    for number, segment in enumerate(segments, 1):
        if segment.log is unwritten:
            return number
    return len(segments)
