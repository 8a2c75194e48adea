"""The kernel's page cache: is a range in it, bring it in, let it go.

`sendfile` and `pread` of a cold page keep their caller waiting for the disk. A read that may not wait (RWF_NOWAIT)
tells cold from warm; where the kernel or file system cannot say, everything counts as warm.
"""

from __future__ import annotations

import os

PROBE_EVERY_BYTES = 512 * 1024
"""The kernel reads ahead and reclaims in such pieces: what lies between two warm probes is hardly ever cold."""
LOAD_STEP_BYTES = 128 * 1024

_probe = (bytearray(1),)
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)


def is_resident(fd: int, position: int, size: int) -> bool:
    """Tell whether [position, position + size) can be read without waiting for the disk, as far as probes show."""
    last = position + size - 1
    try:
        while position < last:
            os.preadv(fd, _probe, position, _NOWAIT)
            position += PROBE_EVERY_BYTES
        os.preadv(fd, _probe, last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def load(fd: int, position: int, size: int) -> None:
    """Read the range into the page cache. Blocking: disk; for an I/O thread. Raises: OSError."""
    os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)
    end = position + size
    while position < end:
        got = len(os.pread(fd, min(LOAD_STEP_BYTES, end - position), position))
        if not got:
            return
        position += got


def drop(fd: int, position: int, size: int) -> None:
    """Let the kernel forget the clean pages of the range; dirty ones stay. Raises: OSError."""
    os.posix_fadvise(fd, position, size, os.POSIX_FADV_DONTNEED)
