"""What waits to be unlinked: files that carry `.deleted`, each with the time when its delay has passed.

One queue for all logs of a broker, on the side that owns the logs: `schedule` and `take_due` are never called from a
thread; the unlinking of what was taken may happen in one. The delay is part of the due time, so a later change of
`file.delete.delay.ms` moves nothing, and the time is monotonic, so a wall clock that is set moves nothing either. A
crash forgets the queue; loading a log removes its `.deleted` files.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from storage.env.fs import FileSystem
from storage.errors import StorageFailure

logger = logging.getLogger(__name__)


class Deletions:
    """Paths by the time when they may go."""

    __slots__ = ("_pending", "_scheduled")

    def __init__(self) -> None:
        self._pending: list[tuple[int, int, Sequence[str]]] = []  # a heap of (due time, order of scheduling, paths)
        self._scheduled = 0

    def schedule(self, due_ms: int, paths: Sequence[str]) -> None:
        """Let the files go from due_ms (monotonic) on."""
        if paths:
            self._scheduled += 1
            heappush(self._pending, (due_ms, self._scheduled, paths))

    def take_due(self, now_ms: int) -> list[str]:
        """Take out what is due, in the order of due times; whoever takes it unlinks it."""
        due: list[str] = []
        while self._pending and self._pending[0][0] <= now_ms:
            due += heappop(self._pending)[2]
        return due

    def next_due_ms(self) -> int | None:
        """Return when the next files are due, None when nothing waits."""
        return self._pending[0][0] if self._pending else None

    def __len__(self) -> int:
        """Return how many files wait."""
        return sum(len(paths) for _, _, paths in self._pending)


def unlink_files(fs: FileSystem, paths: Iterable[str]) -> None:
    """Remove files; one that is missing went with its directory. Raises: StorageFailure. Blocking: disk; any thread."""
    for path in paths:
        try:
            fs.unlink(path)
        except OSError as error:
            raise StorageFailure(f"cannot unlink {path}: {error}", path) from error


def remove_log_files(fs: FileSystem, path: str) -> None:
    """Remove every file of a log's directory and the directory; folders inside are not ours and keep it alive."""
    for entry in fs.list_dir(path):
        if not entry.is_dir:
            fs.unlink(os.path.join(path, entry.name))
    try:
        fs.remove_dir(path)
    except OSError as error:
        logger.warning("a deleted log's directory stays path=%s reason=%s", path, error)
