"""The machine's files for tools that look at what others have put there: a pipe or a device is no file of a log.

A broker owns its directories and asks nothing of the kind. Here whoever opens a pipe would wait for ever, and a file
that is read at once may have any size.
"""

from __future__ import annotations

import errno
import os
import stat

from storage.env.posix import PosixFile, PosixFileSystem

MAX_READ_AT_ONCE_BYTES = (1 << 31) - 1
"""No index, snapshot or checkpoint is larger; segments are read in parts."""


class PlainFiles(PosixFileSystem):
    """Reads files that are files."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> PosixFile:
        """Open a file. Raises: OSError, also when it is none."""
        _size_of(path)
        return super().open(path, create=create, writable=writable)

    def read_file(self, path: str) -> bytes:
        """Return the whole content. Raises: OSError, also when it is no file, or too large to be read at once."""
        if _size_of(path) > MAX_READ_AT_ONCE_BYTES:
            raise OSError(errno.EFBIG, "Larger than any such file", path)
        return super().read_file(path)


def _size_of(path: str) -> int:
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)
    return found.st_size
