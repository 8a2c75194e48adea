"""Small file systems of a test's own that can be made to fail: full, read-only, broken, powered off, taken away.

Each is an ext4 on a loop device whose blocks lie in a memory file. The faults are the kernel's own:

- `fill` and `use_up_names` leave no space and no inode: ENOSPC;
- `make_read_only` has ext4 find an error, after which it refuses writes, as after a real one: EROFS;
- `break_writes` seals the memory file: the page cache takes what is written, write-back and fsync fail, and the second
  fsync says nothing: EIO, and EROFS once the journal has noticed;
- `die` empties it as well: what is not in the page cache cannot be read;
- `power_off` drops whatever was not synced and lets every call fail: what the death of a machine does to a file system;
- `detach` is a lazy unmount: open files go on, the path shows the folder underneath.

`repair` mounts the file system anew, from a copy where its blocks cannot be written any more, and replays its journal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 4096
MIB = 1 << 20
TOOLS = ("mkfs.ext4", "mount", "umount")

_ADD_SEALS, _SEAL_GROW, _SEAL_WRITE = 1033, 0x4, 0x8
_EXT4_SHUTDOWN, _WITHOUT_THE_JOURNAL = 0x8004587D, 2
_STUFFING = ".stuffing"


class Disk:
    """One file system, mounted at `path` from the constructor to `close`."""

    def __init__(self, path: Path, *, size_bytes: int = 64 * MIB, inodes: int = 1024) -> None:
        self.path = path
        self._image = _memory_file(size_bytes)
        self._intact: bytes | None = None  # what the blocks held when they died
        options = ("-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", "-b", str(BLOCK_BYTES), "-m", "0")
        _run("mkfs.ext4", "-q", "-F", *options, "-N", str(inodes), _path_of(self._image))
        path.mkdir(parents=True, exist_ok=True)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-t", "ext4", "-o", "loop,errors=remount-ro", _path_of(self._image), str(self.path))
        self._device = os.stat(self.path).st_dev

    # --- space ---

    def free_bytes(self) -> int:
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Leave so many bytes of space, or a block or two less."""
        with _opened(self.path / _STUFFING, os.O_RDWR | os.O_CREAT) as file:
            size = os.fstat(file).st_size
            chunk = self.free_bytes() // BLOCK_BYTES * BLOCK_BYTES
            while chunk:
                try:
                    os.posix_fallocate(file, size, chunk)
                    size += chunk
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    chunk = chunk // 2 // BLOCK_BYTES * BLOCK_BYTES
            os.ftruncate(file, size - leave_bytes)
            os.fsync(file)

    def use_up_names(self) -> None:
        """Leave no inode: files may grow, none can be made."""
        folder = self.path / f"{_STUFFING}-names"
        folder.mkdir()
        with contextlib.suppress(OSError):
            for number in range(1 << 20):
                (folder / str(number)).touch()

    def free(self) -> None:
        """Give back what `fill` and `use_up_names` have taken."""
        (self.path / _STUFFING).unlink(missing_ok=True)
        shutil.rmtree(self.path / f"{_STUFFING}-names", ignore_errors=True)

    def drop_cached(self, path: Path) -> None:
        """Let the content of a file have to be read from the blocks."""
        with _opened(path) as file:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    # --- faults ---

    def make_read_only(self) -> None:
        """Let ext4 find an error of its own and go on without writing."""
        device = f"{os.major(self._device)}:{os.minor(self._device)}"
        name = Path(f"/sys/dev/block/{device}").resolve().name
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("a test asked for it")

    def break_writes(self) -> None:
        """Let every block refuse to be written; what was read or written before stays as it is."""
        fcntl.fcntl(self._image, _ADD_SEALS, _SEAL_WRITE)

    def die(self) -> None:
        """Let every block refuse to be read or written."""
        self._intact = os.pread(self._image, os.fstat(self._image).st_size, 0)
        os.ftruncate(self._image, 0)
        fcntl.fcntl(self._image, _ADD_SEALS, _SEAL_GROW)

    def power_off(self) -> None:
        """Lose all that was not synced; every call fails from now on."""
        with _opened(self.path) as folder:
            fcntl.ioctl(folder, _EXT4_SHUTDOWN, struct.pack("I", _WITHOUT_THE_JOURNAL))

    def detach(self) -> None:
        """Take the file system away from its path; files that are open stay usable."""
        _run("umount", "--lazy", str(self.path))

    def repair(self) -> None:
        """Mount what the blocks hold at the path again, writable; nobody may have a file open there."""
        if os.path.ismount(self.path):
            _run("umount", str(self.path))
        content = self._intact or os.pread(self._image, os.fstat(self._image).st_size, 0)
        os.close(self._image)
        self._image, self._intact = _memory_file(len(content)), None
        os.pwrite(self._image, content, 0)
        self._mount()

    def close(self) -> None:
        """Unmount, whoever still has files open there."""
        if os.path.ismount(self.path):
            _run("umount", "--lazy", str(self.path))
        os.close(self._image)


@contextlib.contextmanager
def mounted(path: Path, *, size_bytes: int = 64 * MIB, inodes: int = 1024) -> Iterator[Disk]:
    """Give a fresh file system at `path`, and take it away at the end."""
    disk = Disk(path, size_bytes=size_bytes, inodes=inodes)
    try:
        yield disk
    finally:
        disk.close()


@functools.cache
def missing() -> str:
    """Say why no file system can be mounted here; empty when one can."""
    if os.geteuid():
        return "only root may mount file systems"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    try:
        with tempfile.TemporaryDirectory() as folder, mounted(Path(folder) / "probe", size_bytes=4 * MIB) as disk:
            disk.make_read_only()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no file system can be mounted and broken here: {getattr(error, 'stderr', '') or error}"
    return ""


def _memory_file(size_bytes: int) -> int:
    image = os.memfd_create("disk", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(image, size_bytes)
    return image


def _path_of(image: int) -> str:
    return f"/proc/{os.getpid()}/fd/{image}"


@contextlib.contextmanager
def _opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield file
    finally:
        os.close(file)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
