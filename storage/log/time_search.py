"""Records by time: a search is planned on the owner's side and runs in any thread.

What it needs is written down: which segments may hold the record, the names and sizes of their files (log.views), the
bounds. It opens the files by these names and changes nothing, so the log goes on meanwhile. The owner asks
`still_holds` afterwards, and plans anew if not.

The `.log` is read in windows (odradek.log.timestamp.scan.window.bytes); a batch that a window cuts is completed, one
that is not wanted is passed over unread. Indexes are lower bounds only: where one is missing or damaged the segment is
walked from its beginning. Source: LogSegment.findOffsetByTimestamp, UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from config.views import NO_DECOMPRESSED_LIMIT, LogConfig
from protocol.records.batch import HEADER_SIZE, MAGIC_V2, NO_TIMESTAMP, BatchHeader
from protocol.records.errors import BodyTooLarge, CorruptBatch, DecompressedTooLarge, InvalidBatch
from protocol.records.record import find_by_timestamp, record_section
from storage.env.fs import File, FileSystem, read_growing
from storage.errors import CorruptRecord, InvalidRecord, LogClosed, StorageFailure
from storage.log.legacy import iter_legacy_records
from storage.log.state import LogState
from storage.log.validator import inflation_bound
from storage.log.views import LogViews, position_in, time_index_of
from storage.segment.log_file import parse_any_header
from storage.segment.names import LOG_SUFFIX
from storage.segment.segment import Segment
from storage.segment.view import SegmentView


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """One lookup. Immutable after construction."""

    __slots__ = (
        "_bound",
        "_config",
        "_fs",
        "_start_offset",
        "_timestamp",
        "_views",
    )

    def __init__(
        self, state: LogState, segments: Sequence[Segment], timestamp: int | None, *, start_offset: int, bound: int
    ) -> None:
        self._fs: FileSystem = state.fs
        self._config: LogConfig = state.config
        self._timestamp = timestamp  # None asks for the largest one
        self._start_offset = start_offset
        self._bound = bound
        self._views = LogViews(state, segments)

    def still_holds(self, state: LogState) -> bool:
        """Tell whether what was planned on is still there; on the owner's side."""
        if self._timestamp is not None and state.offsets.log_start_offset > self._start_offset:
            return False
        return self._views.still_hold(state)

    def run(self) -> TimestampOffset | None:
        """Find the record; None when there is none below the bound.

        Raises: InvalidRecord when a record above the decompression limit must be decoded; LogClosed when a file is not
        there any more; StorageFailure, CorruptRecord. Blocking: disk, cpu; any thread.
        """
        path = self._views.path
        try:
            found = self._largest() if self._timestamp is None else self._first(self._timestamp)
        except FileNotFoundError as error:
            raise LogClosed(f"{path}: {error}") from error
        except OSError as error:
            raise StorageFailure(f"cannot search by time in {path}: {error}", path) from error
        except (BodyTooLarge, DecompressedTooLarge) as error:
            raise InvalidRecord(str(error)) from error
        except (CorruptBatch, InvalidBatch) as error:
            raise CorruptRecord(f"{path}: {error}") from error
        return found if found is not None and found.offset < self._bound else None

    def _first(self, timestamp: int) -> TimestampOffset | None:
        for view in self._views.all:
            lower_bound = view.base_offset
            with time_index_of(self._fs, view) as time_index:
                if time_index is not None:
                    if view.largest_timestamp is None and time_index.last_timestamp < timestamp:
                        continue
                    lower_bound = time_index.lookup(timestamp)[1]
            found = self._scan(view, max(lower_bound, self._start_offset), timestamp)
            if found is not None:
                return found
        return None

    def _largest(self) -> TimestampOffset | None:
        best, timestamp, offset = None, NO_TIMESTAMP, 0
        for view in self._views.all:
            largest, at_offset = self._largest_of(view)
            if largest > timestamp:
                best, timestamp, offset = view, largest, at_offset
        return self._scan(best, offset, timestamp) if best is not None else None

    def _largest_of(self, view: SegmentView) -> tuple[int, int]:
        """Return the largest timestamp of a segment and the last offset of its first batch that holds it."""
        if view.largest_timestamp is not None:
            return view.largest_timestamp, view.offset_of_largest
        with time_index_of(self._fs, view) as time_index:
            if time_index is not None:
                return time_index.last_timestamp, time_index.last_offset
        timestamp, offset = NO_TIMESTAMP, view.base_offset

        def note(header: BatchHeader) -> bool:
            nonlocal timestamp, offset
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
            return False

        for _ in self._batches(view, 0, note):
            raise AssertionError("headers are enough")
        return timestamp, offset

    # --- one segment ---

    def _scan(self, view: SegmentView, from_offset: int, timestamp: int) -> TimestampOffset | None:
        """Return the first record in batches that end at or above from_offset."""
        position = position_in(self._fs, view, from_offset)
        start_offset = self._start_offset

        def may_hold(header: BatchHeader) -> bool:
            return header.max_timestamp >= timestamp and header.last_offset >= from_offset

        for header, batch in self._batches(view, position, may_hold):
            found = self._record(header, batch, timestamp, start_offset)
            if found is not None:
                return TimestampOffset(*found, header.partition_leader_epoch)
        return None

    def _batches(
        self, view: SegmentView, position: int, is_wanted: Callable[[BatchHeader], bool]
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        config = self._config
        file = self._fs.open(view.path(LOG_SUFFIX), writable=False)
        try:
            yield from wanted_batches(
                file,
                position,
                view.log_bytes,
                is_wanted,
                window_bytes=config.timestamp_scan_window_bytes,
                buffer_bytes=config.read_buffer_cap_bytes,
            )
        finally:
            file.close()

    def _record(self, header: BatchHeader, batch: bytes, timestamp: int, start_offset: int) -> tuple[int, int] | None:
        if header.magic < MAGIC_V2:
            for record in iter_legacy_records(batch):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return record.timestamp, record.offset
            return None
        section = record_section(batch, 0, header, max_size=inflation_bound(self._config))
        limit = self._config.max_decompressed_message_bytes if header.codec else NO_DECOMPRESSED_LIMIT
        return find_by_timestamp(header, section, timestamp, start_offset, max_body_bytes=limit)


def wanted_batches(
    file: File,
    position: int,
    end: int,
    is_wanted: Callable[[BatchHeader], bool],
    *,
    window_bytes: int,
    buffer_bytes: int,
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Walk the batches of [position, end) in windows and give those wanted, whole; the others are passed over unread.

    Raises: CorruptBatch, also when the file is shorter than `end`. Blocking: disk.
    """
    window_bytes = max(min(window_bytes, buffer_bytes), HEADER_SIZE)
    while position < end:
        window = file.read_at(min(window_bytes, end - position), position)
        if not window:
            raise CorruptBatch(f"nothing at byte {position} of {end}")
        at = 0
        while at < len(window):
            if len(window) - at < HEADER_SIZE and position + len(window) < end:
                break  # the window cuts the header; the next one begins with it
            header = parse_any_header(window, at)
            following = at + header.size_bytes
            if position + following > end:
                return
            if is_wanted(header):
                batch = window[at:following]
                missing = following - at - len(batch)
                if missing:
                    batch += read_growing(file, missing, position + len(window), first_bytes=buffer_bytes)
                yield header, batch
            at = following
        if not at:
            raise CorruptBatch(f"{len(window)} bytes at {position} of {end} are too few for a batch")
        position += at


def plan_first(state: LogState, timestamp: int, bound: int) -> TimeSearch | None:
    """Plan to find the first record with that timestamp or a later one, at or above the log start and below `bound`.

    None when it is known that there is none.
    """
    start_offset = state.offsets.log_start_offset
    segments = [
        segment for segment in state.segments.overlapping(start_offset, bound) if segment.may_hold_timestamp(timestamp)
    ]
    return TimeSearch(state, segments, timestamp, start_offset=start_offset, bound=bound) if segments else None


def plan_largest(state: LogState, bound: int) -> TimeSearch | None:
    """Plan to find the first record that has the largest timestamp of the log; nothing if it is not below `bound`."""
    best: Segment | None = None
    unknown = []
    for segment in state.segments:
        if not segment.log.size:
            continue
        if segment.is_timestamp_known:
            if best is None or segment.largest_timestamp > best.largest_timestamp:
                best = segment
        else:
            unknown.append(segment)
    segments = sorted([best, *unknown] if best is not None else unknown, key=lambda segment: segment.base_offset)
    return TimeSearch(state, segments, None, start_offset=0, bound=bound) if segments else None
