"""The `leader-epoch-checkpoint` of a partition: `epoch startOffset` a line, ascending in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from storage.checkpoints.lines import TMP_SUFFIX, read_lines, render_lines
from storage.env.fs import FileSystem
from storage.errors import CorruptCheckpoint

SAVE_SUFFIX = ".save" + TMP_SUFFIX
"""Of the write that a flush brings, in a thread of its own."""


def read_leader_epochs(fs: FileSystem, path: str) -> list[tuple[int, int]]:
    """Return (epoch, start offset) pairs. Raises: CorruptCheckpoint, also when they do not ascend."""
    entries: list[tuple[int, int]] = []
    for row in read_lines(fs, path):
        try:
            epoch, start_offset = map(int, row)
        except ValueError as error:
            raise CorruptCheckpoint(path, f"malformed line {' '.join(row)!r}") from error
        if epoch < 0 or start_offset < 0 or (entries and (epoch <= entries[-1][0] or start_offset < entries[-1][1])):
            raise CorruptCheckpoint(path, f"entry {epoch} {start_offset} is out of order")
        entries.append((epoch, start_offset))
    return entries


def write_leader_epochs(
    fs: FileSystem,
    path: str,
    entries: Iterable[tuple[int, int]],
    *,
    suffix: str = TMP_SUFFIX,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Atomically replace the file without syncing its directory, if that is still wanted then. Blocking: disk.

    Whoever may write at the same time in another thread needs another suffix.
    """
    temporary = path + suffix
    fs.write_file(temporary, render_lines(f"{epoch} {start_offset}" for epoch, start_offset in entries))
    if is_wanted():
        fs.rename(temporary, path)
    else:
        fs.unlink(temporary)
