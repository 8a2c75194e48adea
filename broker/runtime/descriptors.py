"""How many files and sockets this process may have open at once."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

RESERVED = 256
"""Descriptors that connections leave to files, at most. A log that cannot open a file takes its directory offline, so
too many clients would else end the broker."""


def raise_limit() -> int:
    """Raise the limit as far as the process may, as a JVM does at its start, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # the system may have a bound of its own below it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def first_reserved(limit: int) -> int:
    """Return the descriptor from which on they are reserved. New ones are the lowest free: reaching it means use."""
    return limit - min(RESERVED, limit // 4)
