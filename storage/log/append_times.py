"""When records were appended: planned for some offsets of one log, found in any thread from indexes and batch headers.

The answer is the time that the batch of the record bears: that of the append where the topic stamps it
(LogAppendTime), else what the producer said of its first record. No record is decoded. An offset that was compacted
away leads to the next batch there is.

The active segment's index is asked when the plan is made: its newest entries are in memory only, and the readers of the
log look there all the time. Indexes of sealed segments, and all headers, are left to `run`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.records.batch import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, BatchHeader
from protocol.records.errors import CorruptBatch
from storage.errors import CorruptRecord, LogClosed, StorageFailure
from storage.log.state import LogState
from storage.log.views import LogViews, position_in
from storage.segment.log_file import LogFile
from storage.segment.names import LOG_SUFFIX
from storage.segment.segment import Segment
from storage.segment.view import SegmentView

NO_TIME = -1
"""Of records in the oldest format, which bear no time, and of those whose producer says 0 for want of a better one."""


class _Wanted(NamedTuple):
    """One offset: where to look first, and from which position on if that is known."""

    offset: int
    view_number: int
    position: int | None


class AppendTimes:
    """The lookups of one log. Immutable after construction."""

    __slots__ = ("_fs", "_views", "_wanted")

    def __init__(self, state: LogState, offsets: Iterable[int]) -> None:
        """Plan. Blocking: index pages of the active segment."""
        self._fs = state.fs
        segments: list[Segment] = []
        numbers: dict[int, int] = {}
        self._wanted: list[_Wanted] = []
        for offset in offsets:
            first = state.segments.floor(offset) or state.segments.first()
            number = numbers.get(first.base_offset)
            if number is None:
                number = numbers[first.base_offset] = len(segments)
                segments += _with_next(state, first)
            position = first.offset_index.lookup(offset) if first.is_active else None
            self._wanted.append(_Wanted(offset, number, position))
        self._views = LogViews(state, segments)

    def still_holds(self, state: LogState) -> bool:
        """Tell whether what was planned on is still there; on the owner's side."""
        return self._views.still_hold(state)

    def run(self) -> dict[int, int | None]:
        """Find the times: None for an offset behind which nothing is, NO_TIME where the record bears none.

        Raises: LogClosed when a file is not there any more; StorageFailure, CorruptRecord. Blocking: disk; any thread.
        """
        found: dict[int, int | None] = {}
        files: dict[int, LogFile] = {}
        try:
            for wanted in self._wanted:
                header = self._header(files, wanted)
                found[wanted.offset] = None if header is None else time_of(header)
        except FileNotFoundError as error:
            raise LogClosed(f"{self._views.path}: {error}") from error
        except OSError as error:
            raise StorageFailure(f"cannot look into {self._views.path}: {error}", self._views.path) from error
        except CorruptBatch as error:
            raise CorruptRecord(f"{self._views.path}: {error}") from error
        finally:
            for file in files.values():
                file.close()
        return found

    def _header(self, files: dict[int, LogFile], wanted: _Wanted) -> BatchHeader | None:
        """Return the header of the first batch that ends at or above the offset, in its segment or the one after."""
        views = self._views.all
        for number in (wanted.view_number, wanted.view_number + 1):
            if number >= len(views):
                break
            view = views[number]
            file = files.get(number)
            if file is None:
                file = files[number] = LogFile(self._fs, view.path(LOG_SUFFIX), view.log_bytes)
            at = file.find_batch(wanted.offset, self._position(view, wanted, number))
            if at is not None:
                return file.header_at(at)
        return None

    def _position(self, view: SegmentView, wanted: _Wanted, number: int) -> int:
        if number == wanted.view_number and wanted.position is not None:
            return wanted.position
        return position_in(self._fs, view, wanted.offset)


def _with_next(state: LogState, segment: Segment) -> list[Segment]:
    """Give a segment and the next one that has batches: compaction may have taken the first one's end."""
    following = state.segments.after(segment)
    while following is not None and not following.size:
        following = state.segments.after(following)
    return [segment] if following is None else [segment, following]


def time_of(header: BatchHeader) -> int:
    """Give the time a batch bears: of its append, else of its first record as the producer said."""
    if header.attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT):  # the latter keeps another time in the base
        return header.max_timestamp
    return header.base_timestamp if header.base_timestamp > 0 else NO_TIME
