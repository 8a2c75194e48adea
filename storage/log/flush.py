"""Flushing a log: plan on the owner's side, sync anywhere, note the result on the owner's side.

A plan is immutable and pins its files, so that it may run in a thread while the log goes on. The recovery point moves
only in `note_flushed`, after everything below it is on disk: the batches, the indexes, the epoch file and the names.
A failed sync is final: the kernel may have dropped the dirty pages, so the directory is given up, never tried again.
"""

from __future__ import annotations

import os.path

from config.views import LONG_MAX, LogConfig
from storage.env.fs import File, FileSystem
from storage.epochs.cache import EpochSave
from storage.errors import StorageFailure
from storage.log.direct_writes import write_now, written_end
from storage.log.state import LogState
from storage.segment.segment import Segment

NEVER = LONG_MAX


def is_flush_due(config: LogConfig, unflushed_count: int) -> bool:
    """Decide whether an append that leaves so many offsets unflushed is answered after a flush only."""
    return config.flush_on_append or unflushed_count >= config.flush_messages


def ms_until_flush(state: LogState, now_ms: int) -> int | None:
    """Return after what time flush.ms asks for a flush, 0 for now; None when nothing is unflushed or it never does.

    Never more than flush.ms, so that a wall clock which was set back postpones nothing for long.
    """
    interval_ms = state.config.flush_ms
    if interval_ms >= NEVER or state.offsets.recovery_point >= state.offsets.log_end_offset:
        return None
    return min(max(state.last_flush_ms + interval_ms - now_ms, 0), interval_ms)


class FlushPlan:
    """Files to sync so that everything below target_offset is durable.

    The active segment's open files are pinned. Sealed ones are named and opened by run() one at a time, so that a plan
    over a thousand of them holds no thousand descriptors; one that was removed meanwhile needs no sync.
    """

    __slots__ = ("_directories", "_files", "_fs", "_sealed", "covered", "epochs", "target_offset")

    def __init__(
        self,
        fs: FileSystem,
        files: list[File],
        sealed: list[str],
        directories: tuple[str, ...],
        target_offset: int,
        covered: list[tuple[Segment, int]],
        epochs: EpochSave | None,
    ) -> None:
        for file in files:
            file.pin()
        self._fs = fs
        self._files = files
        self._sealed = sealed
        self._directories = directories  # none where no name is new
        self.target_offset = target_offset
        self.covered = covered  # segments with the size of the `.log` that is synced
        self.epochs = epochs  # where the file lacks an epoch of these batches

    def run(self) -> None:
        """Sync data, write the epochs it brings, sync names. Raises: StorageFailure. Blocking: disk; any thread."""
        path: str | None = None
        try:
            for path in self._sealed:
                self._sync_sealed(path)
            for file in self._files:
                path = file.path
                file.sync()
            if self.epochs is not None:
                (path, *_) = self._directories
                self.epochs.run()
            for path in self._directories:
                self._fs.sync_dir(path)
        except OSError as error:
            raise StorageFailure(f"cannot flush: {error}", path) from error

    def _sync_sealed(self, path: str) -> None:
        try:
            file = self._fs.open(path)
        except FileNotFoundError:
            return
        try:
            file.sync()
        finally:
            file.close()

    @property
    def has_names(self) -> bool:
        """Tell whether the directory is synced too."""
        return bool(self._directories)

    @property
    def has_directory_name(self) -> bool:
        """Tell whether the name of the directory itself is made durable, too."""
        return len(self._directories) > 1

    @property
    def has_sealed(self) -> bool:
        """Tell whether the plan takes sealed segments below the recovery point."""
        return len(self.covered) > bool(self._files)

    def release(self) -> None:
        """Give the pins back, on the owner's side. Idempotent."""
        files, self._files = self._files, []
        for file in files:
            file.unpin()


def has_unflushed(state: LogState) -> bool:
    """Tell whether a flush would have something to do."""
    offsets = state.offsets
    return (
        offsets.recovery_point < offsets.log_end_offset
        or state.has_new_names
        or state.epochs.lacks_file(offsets.log_end_offset)
    )


def plan_flush(state: LogState, below: int | None = None) -> FlushPlan | None:
    """Return what must be synced to move the recovery point to the log end, None when nothing is dirty.

    Where everything below `below` is sealed, the recovery point moves to the active segment only, which is left alone.
    Raises: StorageFailure when a file cannot be opened.
    """
    start, target = state.offsets.recovery_point, written_end(state)
    if below is not None and below <= state.segments.active.base_offset < target:
        target = state.segments.active.base_offset
    lacks_epochs = state.epochs.lacks_file(target)
    if start >= target and not state.has_new_names and not lacks_epochs:
        return None
    files: list[File] = []
    sealed = list(state.unsynced_files)
    covered = []
    try:
        for segment in state.segments.overlapping(start, target):
            covered.append((segment, segment.log.size))
            if segment.is_active:
                files = segment.open_files()
            else:
                sealed += segment.file_paths()
    except OSError as error:
        raise StorageFailure(f"cannot open files to flush: {error}", state.path) from error
    sealed = list(dict.fromkeys(sealed))
    epochs = None
    if lacks_epochs:
        epochs, state.has_new_names = state.epochs.plan_save(), True
    plan = FlushPlan(state.fs, files, sealed, _new_names(state), target, covered, epochs)
    state.unsynced_files.clear()
    # What is created from now on belongs to the next plan.
    state.has_new_names = state.has_unsynced_directory = False
    return plan


def _new_names(state: LogState) -> tuple[str, ...]:
    """Return the directories to be synced: that of the log and, the first time, the one that holds its name."""
    if not state.has_new_names:
        return ()
    return (state.path, os.path.dirname(state.path)) if state.has_unsynced_directory else (state.path,)


def note_flushed(state: LogState, plan: FlushPlan) -> None:
    """Move the recovery point after a successful run; a truncation meanwhile is respected."""
    plan.release()
    if plan.epochs is not None:
        state.epochs.saved(plan.epochs)
    state.offsets.advance_recovery_point(min(plan.target_offset, state.offsets.log_end_offset))
    state.last_flush_ms = state.clock.now_ms()
    state.stats.flushes += 1
    for segment, size in plan.covered:
        state.count_cached(segment, size)


def note_flush_failed(state: LogState, plan: FlushPlan) -> None:
    """Give a failed plan back; the recovery point stays where it is."""
    plan.release()
    if plan.epochs is not None:
        state.epochs.save_failed(plan.epochs)
    state.has_new_names = state.has_new_names or plan.has_names
    state.has_unsynced_directory = state.has_unsynced_directory or plan.has_directory_name


def flush_now(state: LogState) -> None:
    """Plan, run and note in one go. Raises: StorageFailure. Blocking: disk."""
    write_now(state)
    plan = plan_flush(state)
    if plan is None:
        return
    started = state.clock.monotonic_ns()
    try:
        plan.run()
    except StorageFailure:
        note_flush_failed(state, plan)
        raise
    note_flushed(state, plan)
    state.stats.flush_ns += state.clock.monotonic_ns() - started
