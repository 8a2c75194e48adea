"""The machine's files for tools that look at what others have put there: a file may be of any size.

A broker owns its directories and asks nothing of the kind. That a pipe or a device is no file holds for both.
"""

from __future__ import annotations

import errno
import os

from storage.env.posix import PosixFileSystem

MAX_READ_AT_ONCE_BYTES = (1 << 31) - 1
"""No index, snapshot or checkpoint is larger; segments are read in parts."""


class PlainFiles(PosixFileSystem):
    """Reads at once what can be."""

    __slots__ = ()

    def read_file(self, path: str) -> bytes:
        """Return the whole content. Raises: OSError, also when it is no file, or too large to be read at once."""
        if os.stat(path).st_size > MAX_READ_AT_ONCE_BYTES:
            raise OSError(errno.EFBIG, "Larger than any such file", path)
        return super().read_file(path)
