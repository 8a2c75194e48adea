"""DeletedLogs: logs that were renamed to be deleted, until their delay has passed and their files are unlinked.

Their new names are made durable before anything in them is unlinked. Removed segments of logs that stay have a queue of
their own: see storage.log.deletions.
"""

from __future__ import annotations

from storage.dirs.loading import as_failure
from storage.dirs.log_dir import LogDir
from storage.env.fs import FileSystem
from storage.errors import StorageFailure
from storage.log.deletions import remove_log_files


class DeletedLogs:
    """The deleted logs of all directories."""

    __slots__ = ("_fs", "_pending", "_renamed_in")

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._pending: list[tuple[int, LogDir, str]] = []  # (due time, monotonic; dir, path), as scheduled
        self._renamed_in: set[LogDir] = set()  # where the names of logs have changed since the last sync

    def note_renamed(self, log_dir: LogDir) -> None:
        """Take note of a new name in a directory, to be made durable with the next purge."""
        self._renamed_in.add(log_dir)

    def schedule(self, due_ms: int, log_dir: LogDir, path: str) -> None:
        """Let a log's files go from due_ms (monotonic) on."""
        self._pending.append((due_ms, log_dir, path))

    def next_purge_ms(self) -> int | None:
        """Return when `purge` has something to do next: at once when a deletion is not durable yet."""
        if self._renamed_in:
            return 0
        return min((due for due, _, _ in self._pending), default=None)

    def purge(self, now_ms: int) -> int:
        """Make deletions durable, then unlink the deleted logs that are due; return how many.

        Raises: StorageFailure, after the others were tried. Blocking: disk; any thread, one at a time.
        """
        due = [item for item in list(self._pending) if item[0] <= now_ms]
        self._sync_renamed()  # first: else a crash might bring back half a log
        first_failure: StorageFailure | None = None
        for item in due:
            _, log_dir, path = item
            try:
                if log_dir.is_online and self._fs.exists(path):
                    remove_log_files(self._fs, path)
            except OSError as error:  # and again with the next purge, unless the directory is offline by then
                first_failure = first_failure or as_failure("remove", error, path)
            else:
                self._pending.remove(item)
        if first_failure is not None:
            raise first_failure
        return len(due)

    def _sync_renamed(self) -> None:
        """Make the names of deleted and stray logs durable: one sync a directory, however many they are."""
        while self._renamed_in:
            log_dir = self._renamed_in.pop()
            if log_dir.is_online:
                log_dir.sync()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._pending)
