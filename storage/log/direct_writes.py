"""Writes of a preallocated log beside its owner: plan on the owner's side, write anywhere, note the result there.

A direct write waits for the disk, so a log that an event loop owns takes appends into memory and lets plans write them,
one at a time and in order; appends that come meanwhile go together into the next one. Until a plan is noted its records
lie above the high watermark: nobody reads or counts on what a kill of the process would lose.
A sealed segment whose end is not written yet stays in the queue before its successor, and its last plan trims it. If
the process dies in between, recovery finds its end cut and drops what follows.
"""

from __future__ import annotations

from storage.errors import StorageFailure
from storage.log.state import LogState
from storage.segment.direct_tail import DirectWrite
from storage.segment.log_file import LogFile


class LogWrite:
    """One write, and the offset below which everything is in the files once it has run."""

    __slots__ = ("_write", "file", "target_offset")

    def __init__(self, file: LogFile, write: DirectWrite, target_offset: int) -> None:
        self.file = file
        self._write = write
        self.target_offset = target_offset

    def run(self) -> None:
        """Write. Raises: StorageFailure. Blocking: disk; any thread."""
        try:
            self._write.run()
        except OSError as error:
            raise StorageFailure(f"cannot write: {error}", self.file.path) from error

    def settle(self) -> None:
        """Take note of a run that went well, on the owner's side."""
        self.file.note_written(self._write)

    def release(self) -> None:
        """Give back a plan whose run failed, on the owner's side."""
        self._write.release()


def plan_write(state: LogState) -> LogWrite | None:
    """Return the next write, None when nothing waits or one is running."""
    files = state.write_queue.files
    if not files:
        return None
    file = files[0]
    write = file.tail.plan() if file.tail is not None else None
    return None if write is None else LogWrite(file, write, _end_of(state, file))


def _end_of(state: LogState, file: LogFile) -> int:
    """Return the offset after the last batch of a file that waits, all of them counted."""
    following = state.offsets.log_end_offset
    for segment in reversed(list(state.segments)):
        if segment.log is file:
            break
        following = segment.base_offset
    return following


def note_written(state: LogState, plan: LogWrite) -> None:
    """Move the end of what is written; the high watermark may follow."""
    plan.settle()
    state.write_queue.written_end_offset = min(plan.target_offset, state.offsets.log_end_offset)


def note_truncated(state: LogState, offset: int) -> None:
    """Forget that offsets from `offset` on were written: others will take their place."""
    queue = state.write_queue
    queue.written_end_offset = min(queue.written_end_offset, offset)


def written_end(state: LogState) -> int:
    """Return the offset below which everything is in the files."""
    queue = state.write_queue
    return queue.written_end_offset if queue.files else state.offsets.log_end_offset


def write_now(state: LogState) -> None:
    """Write what waits, here and now. Raises: StorageFailure, also while a write is running. Blocking: disk."""
    while state.write_queue.files:
        plan = plan_write(state)
        if plan is None:
            raise StorageFailure("a write is still running", state.path)
        try:
            plan.run()
        except StorageFailure:
            plan.release()
            raise
        note_written(state, plan)


class DirectWrites:
    """What those ask of a log who write it past the page cache beside its owner."""

    __slots__ = ("_queue", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._queue = state.write_queue

    def defer(self) -> None:
        """From now on appends past the page cache wait in memory, above the high watermark, for the owner's plans."""
        self._queue.is_deferred = True

    @property
    def has_unwritten(self) -> bool:
        """Tell whether appends wait for a write."""
        return bool(self._queue.files)

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that wait in memory for a write."""
        tails = (file.tail for file in self._queue.files)
        return sum(tail.cache.end - tail.written for tail in tails if tail is not None)

    @property
    def written_end_offset(self) -> int:
        """Exclusive bound of what the files hold."""
        return written_end(self._state)

    def plan(self) -> LogWrite | None:
        """Return the next write, for any thread; None when nothing waits, or while one runs."""
        return None if self._state.is_closed else plan_write(self._state)

    def written(self, plan: LogWrite) -> None:
        """Note a write that ran well: what it covers may be read from now on."""
        note_written(self._state, plan)

    def failed(self, plan: LogWrite) -> None:
        """Give back a write that failed; the log cannot go on."""
        plan.release()
