"""Past the page cache: blocks reserved ahead of the data, and what O_DIRECT asks of memory and positions.

`os` knows neither fallocate with flags nor statx: both are reached through ctypes. Where the C library lacks one, that
is answered like a kernel without it. A broker without preallocated logs never loads this: see posix.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from contextlib import suppress

from storage.env.aligned import WRITE_STEP_BYTES

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_STAT_BLOCK_BYTES = 512
_AT_EMPTY_PATH = 0x1000
_STATX_DIOALIGN = 0x2000  # Linux 6.1
_STATX_BYTES = 256
_DIO_MEM_ALIGN = slice(152, 156)  # struct statx: stx_dio_mem_align, stx_dio_offset_align
_DIO_OFFSET_ALIGN = slice(156, 160)

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
_statx = getattr(_libc, "statx", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
if _statx is not None:
    _statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def reserve_blocks(fd: int, size: int) -> None:
    """Reserve disk blocks for [0, size) and leave the length alone. Raises: OSError. Blocking: disk.

    A refusal leaves nothing reserved: other files live on the same disk. ext4 would keep what it found on the way, and
    takes all there is to find out, so that writes elsewhere fail meanwhile; hence the look at the space beforehand.
    """
    if _fallocate is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    status, space = os.fstat(fd), os.fstatvfs(fd)
    if space.f_blocks and size - status.st_blocks * _STAT_BLOCK_BYTES > space.f_bavail * space.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    while _fallocate(fd, _KEEP_SIZE, 0, size):
        code = ctypes.get_errno()
        if code != errno.EINTR:
            with suppress(OSError):
                os.ftruncate(fd, status.st_size)
            raise OSError(code, os.strerror(code))


def direct_block_bytes(fd: int) -> int | None:
    """Return what positions and sizes of direct writes must be multiples of; None when the kernel does not say.

    So is the answer for alignments that our buffers cannot give.
    """
    if _statx is None:
        return None
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx(fd, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, answer):
        return None
    known = int.from_bytes(answer.raw[:4], sys.byteorder)
    memory_bytes = int.from_bytes(answer.raw[_DIO_MEM_ALIGN], sys.byteorder)
    block_bytes = int.from_bytes(answer.raw[_DIO_OFFSET_ALIGN], sys.byteorder)
    if not known & _STATX_DIOALIGN or not memory_bytes or not block_bytes:
        return None
    return block_bytes if mmap.PAGESIZE % memory_bytes == WRITE_STEP_BYTES % block_bytes == 0 else None
