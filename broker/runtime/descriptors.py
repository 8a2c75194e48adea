"""How many files and sockets this process may have open at once, and how they share that.

Segments of logs get up to a quarter, a fixed number stays for all other files, connections get the rest. A log that
cannot open a file takes its directory offline, so too many clients would else end the broker.
"""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from storage.segment.open_files import FILES_PER_SEGMENT

OTHER_FILES = 256
"""Checkpoints, snapshots, flushes of sealed segments, listeners, pipes; less where the limit is small."""
MAX_OPEN_SEGMENTS = 4096
"""Beyond it opening a file anew costs less than keeping it is worth."""
MIN_OPEN_SEGMENTS = 8


def raise_limit() -> int:
    """Raise the limit as far as the process may, as a JVM does at its start, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # the system may have a bound of its own below it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit_in_force()


def limit_in_force() -> int:
    """Return how many descriptors the process may have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def open_segments(limit: int) -> int:
    """Return how many segments may keep their files open."""
    return max(MIN_OPEN_SEGMENTS, min(MAX_OPEN_SEGMENTS, limit // 4 // FILES_PER_SEGMENT))


def first_reserved(limit: int) -> int:
    """Return the descriptor from which on they are for files. New ones are the lowest free: reaching it means use."""
    return limit - open_segments(limit) * FILES_PER_SEGMENT - min(OTHER_FILES, limit // 4)


def ask_for_this_thread() -> Callable[[], bool]:
    """Return a question that is true in the calling thread only."""
    ours = threading.get_ident()
    return lambda: threading.get_ident() == ours
