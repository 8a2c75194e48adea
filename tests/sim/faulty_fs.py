"""A file system whose operations fail where a test says so: by operation, by path, from the n-th time on.

Operations are named as in `storage.env.fs`; `write` and `read` stand for all that write to and read from open files. A
fault stays until it is lifted, as that of a dead disk does, and counts how often it was met.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from storage.env.fs import Buffer, DirEntry, Space
from storage.env.posix import PosixDir, PosixFileSystem, PosixLock

T = TypeVar("T")

CHANGES = {"create", "write", "truncate", "reserve", "write_file", "set_mtime", "rename", "unlink", "make_dirs"} | {
    "remove_dir",
    "open_direct",
}


class Fault:
    """One thing that goes wrong: an operation on paths that begin and end in a certain way."""

    def __init__(self, operation: str, prefix: str, suffix: str, code: int, spared: int) -> None:
        self.operation = operation
        self.prefix = prefix
        self.suffix = suffix
        self.code = code
        self.spared = spared  # so many operations go well first
        self.met = 0

    def meet(self, operation: str, path: str) -> None:
        if operation != self.operation or not path.startswith(self.prefix) or not path.endswith(self.suffix):
            return
        if self.spared:
            self.spared -= 1
            return
        self.met += 1
        raise OSError(self.code, os.strerror(self.code), path)


class FaultyFile:
    """An open file of a FaultyFS."""

    def __init__(self, fs: FaultyFS, file: Any) -> None:
        self._fs = fs
        self._file = file
        self.path: str = file.path
        self.block_bytes: int = getattr(file, "block_bytes", 0)

    @property
    def fd(self) -> int:
        return self._file.fd

    def read_at(self, size: int, position: int) -> bytes:
        return self._fs.run("read", self.path, lambda: self._file.read_at(size, position))

    def read_into(self, buffer: memoryview, position: int) -> int:
        return self._fs.run("read", self.path, lambda: self._file.read_into(buffer, position))

    def write_at(self, data: Buffer, position: int) -> None:
        self._fs.run("write", self.path, lambda: self._file.write_at(data, position))

    def writev_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self._fs.run("write", self.path, lambda: self._file.writev_at(buffers, position))

    def truncate(self, size: int) -> None:
        self._fs.run("truncate", self.path, lambda: self._file.truncate(size))

    def reserve(self, size: int) -> None:
        self._fs.run("reserve", self.path, lambda: self._file.reserve(size))

    def size(self) -> int:
        return self._fs.run("size", self.path, self._file.size)

    def sync(self) -> None:
        self._fs.run("sync", self.path, self._file.sync)

    def pin(self) -> None:
        self._file.pin()

    def unpin(self) -> None:
        self._file.unpin()

    def close(self) -> None:
        self._file.close()


class FaultyFS:
    """The machine's file system, with faults."""

    def __init__(self) -> None:
        self._real = PosixFileSystem()
        self.faults: list[Fault] = []
        self.reads: list[str] = []  # paths of the open files that were read, once for each read
        self.changes: list[tuple[str, str]] = []  # operations that change something, with their paths

    def break_(
        self, operation: str, prefix: object, suffix: str = "", *, code: int = errno.EIO, spared: int = 0
    ) -> Fault:
        """Let an operation fail from now on."""
        fault = Fault(operation, str(prefix), suffix, code, spared)
        self.faults.append(fault)
        return fault

    def run(self, operation: str, path: str, call: Callable[[], T]) -> T:
        for fault in self.faults:
            fault.meet(operation, path)
        if operation == "read":
            self.reads.append(path)
        if operation in CHANGES:
            self.changes.append((operation, path))
        return call()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FaultyFile:
        operation = "create" if create and not os.path.exists(path) else "open"
        return FaultyFile(
            self, self.run(operation, path, lambda: self._real.open(path, create=create, writable=writable))
        )

    def open_direct(self, path: str) -> FaultyFile | None:
        file = self.run("open_direct", path, lambda: self._real.open_direct(path))
        return None if file is None else FaultyFile(self, file)

    def read_file(self, path: str) -> bytes:
        return self.run("read_file", path, lambda: self._real.read_file(path))

    def write_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self.run("write_file", path, lambda: self._real.write_file(path, data, sync=sync))

    def list_dir(self, path: str) -> list[DirEntry]:
        return self.run("list_dir", path, lambda: self._real.list_dir(path))

    def exists(self, path: str) -> bool:
        return self._real.exists(path)

    def is_dir(self, path: str) -> bool:
        return self._real.is_dir(path)

    def file_size(self, path: str) -> int:
        return self.run("file_size", path, lambda: self._real.file_size(path))

    def mtime_ms(self, path: str) -> int:
        return self.run("mtime", path, lambda: self._real.mtime_ms(path))

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self.run("set_mtime", path, lambda: self._real.set_mtime_ms(path, mtime_ms))

    def rename(self, source: str, target: str) -> None:
        self.run("rename", source, lambda: self._real.rename(source, target))

    def unlink(self, path: str) -> None:
        self.run("unlink", path, lambda: self._real.unlink(path))

    def make_dirs(self, path: str) -> None:
        self.run("make_dirs", path, lambda: self._real.make_dirs(path))

    def remove_dir(self, path: str) -> None:
        self.run("remove_dir", path, lambda: self._real.remove_dir(path))

    def sync_dir(self, path: str) -> None:
        self.run("sync_dir", path, lambda: self._real.sync_dir(path))

    def drop_cached(self, path: str, position: int, size: int) -> None:
        self._real.drop_cached(path, position, size)

    def lock(self, path: str) -> PosixLock:
        return self.run("lock", path, lambda: self._real.lock(path))

    def open_dir(self, path: str) -> PosixDir:
        return self.run("open_dir", path, lambda: self._real.open_dir(path))

    def space(self, path: str) -> Space:
        return self.run("space", path, lambda: self._real.space(path))

    def canonical(self, path: str) -> str:
        return self._real.canonical(path)
