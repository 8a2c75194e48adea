"""Write-back: after every window of appended bytes the active `.log` is synced, so that the kernel never owes a burst.

The appender compares the position it has reached with `Segment.writeback_at` and calls LogState.on_window_full, again
with every append until the sync is planned here. Like a FlushPlan, the sync is planned on the owner's side, run in any
thread and noted on the owner's side. It says nothing about indexes and names, so the recovery point stays where it is.
A failed sync is final, as in a flush. Segments that bypass the page cache, and logs that are flushed with every append,
have no window.
"""

from __future__ import annotations

from storage.errors import StorageFailure
from storage.log.state import LogState
from storage.segment.segment import Segment


class WritebackPlan:
    """A sync of one `.log`, whose file is pinned, up to `end`."""

    __slots__ = ("_file", "end", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.end = segment.log.size
        self._file = segment.log.open()
        self._file.pin()

    def run(self) -> None:
        """Wait until what the file held is on disk. Raises: StorageFailure. Blocking: disk; any thread."""
        try:
            self._file.sync()
        except OSError as error:
            raise StorageFailure(f"cannot write back: {error}", self._file.path) from error

    def release(self) -> None:
        """Give the pin back, once, on the owner's side."""
        self._file.unpin()


def plan_writeback(state: LogState) -> WritebackPlan | None:
    """Return the sync of a full window and begin the next one; None when the window is not full.

    Raises: StorageFailure when the file cannot be opened.
    """
    segment = state.segments.active
    if segment.log.size < segment.writeback_at:
        return None
    if segment.log.is_direct:
        segment.begin_window()
        return None
    try:
        plan = WritebackPlan(segment)
    except OSError as error:
        raise StorageFailure(f"cannot open a file to write back: {error}", segment.log.path) from error
    segment.begin_window()
    return plan


def note_written_back(state: LogState, plan: WritebackPlan) -> None:
    """Note a plan that ran well."""
    plan.release()
    state.count_cached(plan.segment, plan.end)
