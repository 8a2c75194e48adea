"""What the cleaner asks of a log: what there is to clean, the task of a pass, and the swap of what it wrote."""

from __future__ import annotations

from config.views import CleanerConfig
from storage.compaction.output import remove_cleaned
from storage.compaction.plan import Dirtiness, dirtiness, task_for
from storage.compaction.swap import Swap, install
from storage.compaction.task import CleanedGroup, CleaningResult, CleaningTask
from storage.log.guard import guarded
from storage.log.state import LogState


class LogCleaning:
    """The cleaning of one log."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def dirtiness(self, checkpoint: int | None, now_ms: int) -> Dirtiness:
        """Measure what a cleaning would find, given the offset up to which the log is clean; see plan.dirtiness."""
        return guarded(self._state, "look for what is dirty in", lambda: dirtiness(self._state, checkpoint, now_ms))

    def task(self, one: Dirtiness, *, now_ms: int, cleaner: CleanerConfig) -> CleaningTask | None:
        """Write down what a cleaning needs to know, None when there is nothing to clean."""
        return None if self._state.is_closed else task_for(self._state, one, now_ms=now_ms, cleaner=cleaner)

    def begin_swap(self, group: CleanedGroup, cut_count: int) -> Swap | None:
        """Begin to install a cleaned group, None when its sources are no longer in the log; the steps are in Swap.

        `cut_count` is that of the task. Without a swap the caller removes the files of the group (remove_cleaned).
        """
        swap = Swap(self._state, group, cut_count)
        return swap if not self._state.is_closed and swap.is_valid() else None

    def remove_cleaned(self) -> None:
        """Remove what a pass that was cancelled, failed or came too late has written. Blocking: disk; any thread."""
        guarded(
            self._state, "remove leftovers of a cleaning in", lambda: remove_cleaned(self._state.fs, self._state.path)
        )

    def install(self, result: CleaningResult) -> bool:
        """Install every group of a finished pass here and now; tell whether all of them still fitted.

        Raises: StorageFailure. Blocking: disk.
        """
        if self._state.is_closed:
            return False
        return all([install(self._state, group, result.cut_count) for group in result.groups])
