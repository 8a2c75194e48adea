"""The kernel's page cache: is a range in it, bring it in, say that it will be needed, let it go.

`sendfile` and `pread` of a cold page keep their caller waiting for the disk. A read that may not wait (RWF_NOWAIT)
tells cold from warm; where the kernel or file system cannot say, everything counts as warm.
"""

from __future__ import annotations

import errno
import os

PROBE_EVERY_BYTES = 512 * 1024
"""The kernel reads ahead and reclaims in such pieces: what lies between two warm probes is hardly ever cold."""
LOAD_STEP_BYTES = 128 * 1024
HINT_PIECE_BYTES = 128 * 1024
"""Of one hint the kernel honours about as much as it reads ahead by itself (read_ahead_kb), so there is one a piece."""

_probe = (bytearray(1),)
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)


def is_resident(fd: int, position: int, size: int) -> bool:
    """Tell whether [position, position + size) can be read without waiting for the disk, as far as probes show.

    What cannot be read at all is not: whoever loads it learns why.
    """
    last = position + size - 1
    try:
        while position < last:
            os.preadv(fd, _probe, position, _NOWAIT)
            position += PROBE_EVERY_BYTES
        os.preadv(fd, _probe, last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno != errno.EIO
    return True


def read_resident(fd: int, position: int, size: int) -> bytes | None:
    """Read a small range if that can be done without waiting for the disk; None otherwise, whatever the reason."""
    data = bytearray(size)
    try:
        return bytes(data) if os.preadv(fd, (data,), position, _NOWAIT) == size else None
    except OSError:
        return None


def load(fd: int, position: int, size: int) -> None:
    """Read the range into the page cache. Blocking: disk; for an I/O thread. Raises: OSError."""
    end = position + size
    while position < end:
        got = len(os.pread(fd, min(LOAD_STEP_BYTES, end - position), position))
        if not got:
            return
        position += got


def read_ahead_end(position: int, size: int, max_bytes: int) -> int:
    """Return up to where a read of [position, position + size) has the kernel prefetch: itself and as much again."""
    return position + size + min(size, max_bytes)


def will_need(fd: int, position: int, end: int) -> None:
    """Let the kernel begin to read [position, end), as far as the file goes. Only a hint: nothing is raised.

    Blocking: may wait for a place in the disk's queue; for an I/O thread.
    """
    advise = getattr(os, "posix_fadvise", None)
    if advise is None:
        return
    try:
        end = min(end, os.fstat(fd).st_size)
        while position < end:
            size = min(HINT_PIECE_BYTES, end - position)
            advise(fd, position, size, os.POSIX_FADV_WILLNEED)
            position += size
    except OSError:
        return


def drop(fd: int, position: int, size: int) -> None:
    """Let the kernel forget the clean pages of the range; dirty ones stay. Raises: OSError."""
    os.posix_fadvise(fd, position, size, os.POSIX_FADV_DONTNEED)
