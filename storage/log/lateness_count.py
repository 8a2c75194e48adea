"""How late the batches of a release were that nobody has looked at one by one, counted afterwards in any thread.

A long release jumps, so that records come as soon as they may; to count what it has passed takes longer, and nobody
waits for it. What has been deleted meanwhile, or cannot be read, is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.records.errors import CorruptBatch
from storage.errors import CorruptRecord, LogClosed, StorageFailure
from storage.log.state import LogState
from storage.log.views import LogViews, position_in
from storage.segment.later import Bounds, walk_until_later
from storage.segment.log_file import LogFile
from storage.segment.names import LOG_SUFFIX
from storage.segment.view import SegmentView

MAX_STEPS: Final = 65_536
"""Of one count, some 50 ms: a search that somebody waits for may be next."""
MAX_SEGMENTS: Final = 16
_CHUNK_STEPS: Final = 4_096


class Released(NamedTuple):
    """Batches that were released and are still to be counted."""

    first_offset: int
    end_offset: int
    seen_limit: int
    """Those that are later than this were seen to be pending."""
    limit: int
    """None is later than this."""


class LatenessCount:
    """One count. Immutable after construction."""

    __slots__ = ("_fs", "_released", "_views")

    def __init__(self, state: LogState, released: Released) -> None:
        self._fs = state.fs
        self._released = released
        segments = state.segments.overlapping(released.first_offset, released.end_offset)
        self._views = LogViews(state, segments[:MAX_SEGMENTS])

    def run(self, note: Callable[[int, int], None]) -> Released | None:
        """Call `note` with a lateness in ms and the number of batches that had it; return what is left to be counted.

        Raises: LogClosed when a file is not there any more; StorageFailure, CorruptRecord. Blocking: disk, cpu; any
        thread.
        """
        path = self._views.path
        try:
            offset = self._count(note)
        except FileNotFoundError as error:
            raise LogClosed(f"{path}: {error}") from error
        except OSError as error:
            raise StorageFailure(f"cannot look how late records were in {path}: {error}", path) from error
        except CorruptBatch as error:
            raise CorruptRecord(f"{path}: {error}") from error
        released = self._released
        return released._replace(first_offset=offset) if released.first_offset < offset < released.end_offset else None

    def _count(self, note: Callable[[int, int], None]) -> int:
        """Count within the bounds; return the offset up to which all is counted."""
        offset, steps = self._released.first_offset, MAX_STEPS
        for view in self._views.all:
            if steps <= 0:
                break
            offset, steps = self._count_in(view, max(offset, view.base_offset), steps, note)
        return offset

    def _count_in(
        self, view: SegmentView, offset: int, steps: int, note: Callable[[int, int], None]
    ) -> tuple[int, int]:
        released = self._released
        bounds = Bounds(released.limit, released.end_offset)
        file = LogFile(self._fs, view.path(LOG_SUFFIX), view.log_bytes)
        try:
            position = file.find_batch(offset, position_in(self._fs, view, offset))
            while position is not None and position < file.size and steps > 0:
                passed: list[int] = []
                allowed = min(steps, _CHUNK_STEPS)
                walk = walk_until_later(file, position, offset, bounds, allowed, passed)
                for timestamp, count in Counter(passed).items():
                    if timestamp > released.seen_limit:
                        note(released.limit - timestamp, count)
                steps -= allowed - walk.steps_left
                position, offset = walk.position, walk.next_offset
                if walk.failure is not None or walk.later is not None:
                    break  # mostly the end of what was released
        finally:
            file.close()
        return offset, steps
