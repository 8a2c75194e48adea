"""The real file system: thin positional calls on descriptors, the only place in storage that calls `os` for files."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from os import pread, preadv, pwrite, pwritev

from storage.env.aligned import AlignedBuffers
from storage.env.fs import Buffer, DirEntry, Space
from storage.env.page_cache import drop

MAX_VECTORS = 1024  # IOV_MAX on Linux
READ_ONLY = os.O_RDONLY | os.O_NONBLOCK  # else opening a pipe would wait for whoever writes into it

RunSync = Callable[[Callable[[int], None], int, str], None]
"""Calls fdatasync or fsync with a descriptor; the path tells what it is of."""


def just_sync(sync: Callable[[int], None], fd: int, path: str) -> None:
    """Sync, and nothing else."""
    sync(fd)


class PosixFile:
    """One descriptor. Pins delay close() so that a region being sent keeps its file."""

    __slots__ = ("_closing", "_pins", "_run_sync", "fd", "path")

    def __init__(self, fd: int, path: str, run_sync: RunSync = just_sync) -> None:
        self.path = path
        self._run_sync = run_sync
        self.fd = fd  # -1 once closed
        self._pins = 0
        self._closing = False

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        data = pread(self.fd, size, position)
        if len(data) == size or not data:
            return data
        chunks = [data]  # a short read: the end of the file, a signal, or the 2 GiB limit of one call
        size -= len(data)
        position += len(data)
        while size > 0 and (data := pread(self.fd, size, position)):
            chunks.append(data)
            size -= len(data)
            position += len(data)
        return b"".join(chunks)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position`; fewer bytes only at the end of the file."""
        got = preadv(self.fd, (buffer,), position)
        if got == len(buffer) or not got:
            return got
        while got < len(buffer) and (more := preadv(self.fd, (buffer[got:],), position + got)):
            got += more
        return got

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position` or raise."""
        written = pwrite(self.fd, data, position)
        if written != len(data):
            self._write_rest(data, written, position)

    def writev_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all `buffers` one after the other from `position` or raise."""
        total = sum(map(len, buffers))
        if len(buffers) <= MAX_VECTORS and pwritev(self.fd, buffers, position) == total:
            return
        for buffer in buffers:
            self._write_rest(buffer, 0, position)
            position += len(buffer)

    def _write_rest(self, data: Buffer, written: int, position: int) -> None:
        with memoryview(data) as view:
            while written < len(view):
                count = pwrite(self.fd, view[written:], position + written)
                if count == 0:
                    raise OSError(errno.EIO, "write made no progress", self.path)
                written += count

    def truncate(self, size: int) -> None:
        """Set the length of the file."""
        os.ftruncate(self.fd, size)

    def reserve(self, size: int) -> None:
        """Reserve disk blocks up to `size` without changing the length."""
        from storage.env.direct import reserve_blocks  # ctypes, which only preallocated logs pay for

        reserve_blocks(self.fd, size)

    def size(self) -> int:
        """Return the current length."""
        return os.fstat(self.fd).st_size

    def sync(self) -> None:
        """Return when data and length are on disk."""
        self._run_sync(os.fdatasync, self.fd, self.path)

    def pin(self) -> None:
        """Keep the descriptor open over a later close()."""
        self._pins += 1

    def unpin(self) -> None:
        """Give back one pin."""
        self._pins -= 1
        if self._closing and self._pins == 0:
            self._close_now()

    def close(self) -> None:
        """Close now, or when the last pin ends."""
        self._closing = True
        if self._pins == 0:
            self._close_now()

    def _close_now(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self._close_now()

    def __repr__(self) -> str:
        return f"PosixFile({self.path!r}, fd={self.fd}, pins={self._pins})"


class PosixDirectFile(PosixFile):
    """A descriptor with O_DIRECT: what it writes goes through aligned memory, in steps, to whole blocks of the file."""

    __slots__ = ("_buffers", "block_bytes")

    def __init__(self, fd: int, path: str, block_bytes: int, buffers: AlignedBuffers) -> None:
        super().__init__(fd, path)
        self.block_bytes = block_bytes
        self._buffers = buffers

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position` or raise."""
        self.writev_at((data,), position)

    def writev_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all `buffers` one after the other from `position` or raise."""
        block_bytes = self.block_bytes
        assert position % block_bytes == sum(map(len, buffers)) % block_bytes == 0, (position, buffers)
        memory = self._buffers.take()
        try:
            filled = 0
            for buffer in buffers:
                at = 0
                while at < len(buffer):
                    count = min(len(buffer) - at, len(memory) - filled)
                    memory[filled : filled + count] = buffer[at : at + count]
                    at, filled = at + count, filled + count
                    if filled == len(memory):
                        self._write_blocks(memory, filled, position)
                        position, filled = position + filled, 0
            self._write_blocks(memory, filled, position)
        finally:
            self._buffers.give_back(memory)

    def _write_blocks(self, memory: memoryview, size: int, position: int) -> None:
        """Write memory[:size]; after a short write go on from the last whole block, where both sides are aligned."""
        written = 0
        while written < size:
            count = pwrite(self.fd, memory[written:size], position + written)
            if count < self.block_bytes:
                raise OSError(errno.EIO, "direct write made no progress", self.path)
            written += count - count % self.block_bytes


class PosixLock:
    """A flock on an open file; the kernel drops it with the process, so a left-over file means nothing."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Give the lock back; the file stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixDir:
    """A descriptor of a directory: it keeps the inode, so that its number is not given to another directory."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def is_at(self, path: str) -> bool:
        """Tell whether a path leads to this directory."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(found, os.fstat(self._fd))

    def close(self) -> None:
        """Let go of the directory."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _open(path: str, flags: int) -> tuple[int, int]:
    """Open what is to be a file; its descriptor and length. Raises: OSError, also for pipes, sockets and devices.

    Such a thing in the place of a file has no length, so it would pass for an empty one.
    """
    try:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise _no_file(path) from error
        raise
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return fd, found.st_size
    os.close(fd)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise _no_file(path)


def _no_file(path: str) -> OSError:
    return OSError(errno.EINVAL, "Not a regular file", path)


class PosixFileSystem:
    """The machine's file system."""

    __slots__ = ("_buffers", "_run_sync")

    def __init__(self, run_sync: RunSync = just_sync) -> None:
        self._run_sync = run_sync
        self._buffers = AlignedBuffers()  # shared by all direct files

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> PosixFile:
        """Open an existing file, or create it when missing and `create` is set."""
        flags = os.O_RDWR if writable else READ_ONLY
        if create:
            flags |= os.O_CREAT
        return PosixFile(_open(path, flags)[0], path, self._run_sync)

    def open_direct(self, path: str) -> PosixDirectFile | None:
        """Open an existing file past the page cache; None where the file system does not tell how."""
        from storage.env.direct import direct_block_bytes  # ctypes, which only preallocated logs pay for

        try:
            fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise
        block_bytes = direct_block_bytes(fd)
        if block_bytes is None:
            os.close(fd)
            return None
        return PosixDirectFile(fd, path, block_bytes, self._buffers)

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        fd, size = _open(path, READ_ONLY)  # no file object: a start reads thousands of small files
        try:
            data = pread(fd, size, 0)
            while len(data) < size and (more := pread(fd, size - len(data), len(data))):
                data += more
            return data
        finally:
            os.close(fd)

    def write_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Create or replace the content of `path`."""
        fd, _ = _open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                self._run_sync(os.fdatasync, fd, path)
        finally:
            os.close(fd)

    def list_dir(self, path: str) -> list[DirEntry]:
        """Return the entries sorted by name; what cannot be looked at counts as neither file nor folder."""
        entries = []
        with os.scandir(path) as names:
            for entry in names:
                try:
                    status = entry.stat()
                except OSError:
                    entries.append(DirEntry(entry.name, False, False, 0))
                    continue
                is_file = stat.S_ISREG(status.st_mode)
                size = status.st_size if is_file else 0
                entries.append(DirEntry(entry.name, stat.S_ISDIR(status.st_mode), is_file, size))
        entries.sort()
        return entries

    def exists(self, path: str) -> bool:
        """Tell whether the name exists."""
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        """Tell whether the name is a directory."""
        return os.path.isdir(path)

    def file_size(self, path: str) -> int:
        """Return the length of a file by name."""
        return os.stat(path).st_size

    def mtime_ms(self, path: str) -> int:
        """Return the modification time in wall-clock milliseconds."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the modification time."""
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def rename(self, source: str, target: str) -> None:
        """Atomically rename."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file; a missing name is not an error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def make_dirs(self, path: str) -> None:
        """Create the directory and missing parents."""
        os.makedirs(path, exist_ok=True)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; a missing name is not an error."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in `path` durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._run_sync(os.fsync, fd, path)
        finally:
            os.close(fd)

    def drop_cached(self, path: str, position: int, size: int) -> None:
        """Let clean pages of a file go from the page cache."""
        try:
            fd, _ = _open(path, READ_ONLY)
        except FileNotFoundError:
            return
        try:
            drop(fd, position, size)
        finally:
            os.close(fd)

    def lock(self, path: str) -> PosixLock:
        """Take the exclusive lock file or raise BlockingIOError when another process holds it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return PosixLock(fd)

    def open_dir(self, path: str) -> PosixDir:
        """Open an existing directory."""
        return PosixDir(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def space(self, path: str) -> Space:
        """Return the room on the file system that a path lies on."""
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def canonical(self, path: str) -> str:
        """Return the path with links resolved."""
        return os.path.realpath(path)
