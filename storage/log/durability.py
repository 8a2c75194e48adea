"""What those ask of a log who bring it to the disk beside its owner: flushes and write-backs, planned and noted here.

A plan runs in any thread; everything else happens on the owner's side.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.log.flush import (
    FlushPlan,
    has_unflushed,
    is_flush_due,
    ms_until_flush,
    note_flush_failed,
    note_flushed,
    plan_flush,
)
from storage.log.state import LogState
from storage.log.writeback import WritebackPlan, note_written_back, plan_writeback


class Durability:
    """The way of one log to the disk."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def watch(self, *, on_rolled: Callable[[], None], on_window_full: Callable[[], None]) -> None:
        """Say whom an append tells that it sealed a segment, which now waits for a flush, or has filled a window.

        An append tells of a full window again and again until `writeback_plan` has begun the next one.
        """
        self._state.on_rolled = on_rolled
        self._state.on_window_full = on_window_full

    @property
    def has_unflushed_data(self) -> bool:
        """Tell whether a flush would have something to do."""
        return has_unflushed(self._state)

    @property
    def sealed_end_offset(self) -> int:
        """Everything below lies in sealed segments."""
        return self._state.segments.active.base_offset

    def is_flush_due(self, flushed_offset: int) -> bool:
        """Decide whether the newest append has to be durable before it is answered; below the argument all are."""
        return is_flush_due(self._state.config, self._state.offsets.log_end_offset - flushed_offset)

    def ms_until_flush(self, now_ms: int) -> int | None:
        """Return after what time flush.ms asks for a flush, 0 for now; None when it does not."""
        return ms_until_flush(self._state, now_ms)

    def flush_plan(self, below: int | None = None) -> FlushPlan | None:
        """Return what must be synced to make everything appended so far durable, None when nothing is dirty.

        With `below`, sealed segments are enough where they hold everything below it.
        """
        return plan_flush(self._state, below)

    def flushed(self, plan: FlushPlan) -> None:
        """Note a plan that ran well: the recovery point moves. A log that was closed meanwhile only takes back pins."""
        if self._state.is_closed:
            plan.release()
        else:
            note_flushed(self._state, plan)

    def flush_failed(self, plan: FlushPlan) -> None:
        """Give back a plan whose run failed."""
        note_flush_failed(self._state, plan)

    def writeback_plan(self) -> WritebackPlan | None:
        """Return the sync that a full window asks for and begin the next window; None when it is not full."""
        return plan_writeback(self._state)

    def written_back(self, plan: WritebackPlan) -> None:
        """Note a write-back that ran well; nothing but its pin is left of it when the log was closed meanwhile."""
        if self._state.is_closed:
            plan.release()
        else:
            note_written_back(self._state, plan)
