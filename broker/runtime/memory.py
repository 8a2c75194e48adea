"""How much memory this process may use: its control group's limit, else what the machine has.

cgroup v2 writes the limit to `memory.max`, v1 to `memory.limit_in_bytes`; a group is also bound by the groups around
it. "max" and v1's enormous number mean no limit. Groups are looked for where they are by convention; without a limit
that can be read, the machine's physical memory counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

ROOT_V2 = PurePosixPath("/sys/fs/cgroup")
ROOT_V1 = PurePosixPath("/sys/fs/cgroup/memory")
OWN_GROUPS = "/proc/self/cgroup"

PAGE_CACHE_SHARE = 0.5
"""The part of the limit that written data may take in the page cache, unless a budget is configured."""

ReadText = Callable[[str], str]


def read_text(path: str) -> str:
    """Return a small file's content. Raises: OSError."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def page_cache_bytes() -> int:
    """Return how much of the page cache written data may take by default."""
    return int(memory_limit_bytes() * PAGE_CACHE_SHARE)


def memory_limit_bytes(read: ReadText = read_text, physical_bytes: int | None = None) -> int:
    """Return the smallest limit that holds for this process."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if physical_bytes is None else physical_bytes
    for path in _limit_files(read):
        try:
            limit = min(limit, int(read(path)))
        except (OSError, ValueError):
            continue  # no such group as seen from here, or "max"
    return limit


def _limit_files(read: ReadText) -> Iterator[str]:
    """Yield the limit files of our groups and of those around them; inside a container the roots are our own."""
    try:
        lines = read(OWN_GROUPS).splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            yield from _upwards(ROOT_V2, group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(ROOT_V1, group, "memory.limit_in_bytes")


def _upwards(root: PurePosixPath, group: str, name: str) -> Iterator[str]:
    own = root / group.lstrip("/")
    for folder in (own, *own.parents):
        if folder.is_relative_to(root):
            yield str(folder / name)
