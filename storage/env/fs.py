"""What storage asks of a file system: the File and FileSystem protocols.

Two implementations exist: `env.posix` for real disks and the crash-simulating twin of the test suite. Everything here
may raise OSError; callers at the border of a log turn that into StorageFailure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class DirEntry(NamedTuple):
    """One name in a directory; `size_bytes` is 0 for a folder, `is_file` is false for a dangling link."""

    name: str
    is_dir: bool
    is_file: bool
    size_bytes: int


class Space(NamedTuple):
    """Room on a file system: its size, and what an ordinary user may still write."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """An open file with positional access; closing waits until nobody holds a pin."""

    fd: int
    path: str

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file. Blocking: disk."""
        ...

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` and return how many bytes there were; fewer only at the end of the file."""
        ...

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position` or raise. Blocking: page cache."""
        ...

    def writev_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all `buffers` one after the other from `position` or raise."""
        ...

    def truncate(self, size: int) -> None:
        """Set the length of the file; growing leaves a hole of zeros."""
        ...

    def reserve(self, size: int) -> None:
        """Reserve disk blocks up to `size` without changing the length. Raises: OSError where it is refused."""
        ...

    def size(self) -> int:
        """Return the current length."""
        ...

    def sync(self) -> None:
        """Fdatasync: return when data and length are on disk. Blocking: disk."""
        ...

    def pin(self) -> None:
        """Keep the descriptor open over a later close()."""
        ...

    def unpin(self) -> None:
        """Give back one pin; the last one performs a close() asked for meanwhile."""
        ...

    def close(self) -> None:
        """Close now, or when the last pin ends. Idempotent."""
        ...


class DirectFile(File, Protocol):
    """A second handle of a file, past the page cache: positions and sizes of writes are multiples of `block_bytes`.

    Nothing is asked of the buffers' addresses. What is read through another handle afterwards is what was written here.
    """

    block_bytes: int


def read_growing(file: File, size: int, position: int, *, first_bytes: int) -> bytes:
    """Return up to `size` bytes from `position`, fewer only at the end of the file.

    Not more than first_bytes is allocated at first, and later not more than what was there already: a size that
    somebody merely claims costs no memory. Blocking: disk.
    """
    if size <= first_bytes:
        return file.read_at(size, position)
    pieces: list[bytes] = []
    got, piece_bytes = 0, first_bytes
    while got < size:
        pieces.append(file.read_at(min(piece_bytes, size - got), position + got))
        if len(pieces[-1]) < piece_bytes:
            break
        got += piece_bytes
        piece_bytes = got
    return b"".join(pieces)


class DirLock(Protocol):
    """An exclusive lock held until release() or the end of the process."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class DirHandle(Protocol):
    """An open directory. While it is held no other directory gets its identity."""

    def is_at(self, path: str) -> bool:
        """Tell whether a path leads to this directory: False when it leads nowhere or to another one. Blocking: disk.

        Raises: OSError when that cannot be told.
        """
        ...

    def close(self) -> None:
        """Let go of the directory. Idempotent."""
        ...


class FileSystem(Protocol):
    """Names and directories. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open an existing file, or create it when missing and `create` is set."""
        ...

    def open_direct(self, path: str) -> DirectFile | None:
        """Open an existing file past the page cache; None where the file system does not tell how. Raises: OSError."""
        ...

    def read_file(self, path: str) -> bytes:
        """Return the whole content; FileNotFoundError when missing."""
        ...

    def write_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Create or replace the content of `path` in place and, by default, fdatasync it."""
        ...

    def list_dir(self, path: str) -> list[DirEntry]:
        """Return the entries sorted by name."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether the name exists (links followed)."""
        ...

    def is_dir(self, path: str) -> bool:
        """Tell whether the name is a directory."""
        ...

    def file_size(self, path: str) -> int:
        """Return the length of a file by name."""
        ...

    def mtime_ms(self, path: str) -> int:
        """Return the modification time in wall-clock milliseconds."""
        ...

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the modification time."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically rename, replacing a file of that name."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; a missing name is not an error."""
        ...

    def make_dirs(self, path: str) -> None:
        """Create the directory and missing parents; existing ones are fine."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; a missing name is not an error."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in `path` durable."""
        ...

    def drop_cached(self, path: str, position: int, size: int) -> None:
        """Let clean pages of a file go from the page cache; a missing file has none."""
        ...

    def lock(self, path: str) -> DirLock:
        """Take the exclusive lock file or raise BlockingIOError when another process holds it."""
        ...

    def open_dir(self, path: str) -> DirHandle:
        """Open an existing directory, to recognise it by later."""
        ...

    def space(self, path: str) -> Space:
        """Return the room on the file system that a path lies on. Blocking: disk."""
        ...

    def canonical(self, path: str) -> str:
        """Return the path with links resolved, to tell two spellings of one directory apart."""
        ...
