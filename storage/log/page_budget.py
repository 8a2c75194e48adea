"""PageCacheBudget: how much of what the logs wrote may stay in the kernel's page cache.

One FIFO for a process: every completed sync adds the whole pages that it covered, and while there is more than the
budget of the log that adds, the oldest pages go, whosesoever they are. A page that is not whole yet is left to the sync
that covers the rest of it: whatever is dropped is clean, and dropping a dirty page has no effect. Pure bookkeeping, on
the side that owns the logs; `take_drops` says what is to be told to the kernel, from any thread. Readers that come for
dropped pages read from disk: only speed is at stake here.

Logs with different budgets each trim the common FIFO to their own value. A file that is closed for good or removed
takes its records with it.
"""

from __future__ import annotations

from collections import OrderedDict
from mmap import PAGESIZE
from typing import NamedTuple

from storage.segment.log_file import LogFile

NO_BUDGET = -1


class Drop(NamedTuple):
    """Bytes of a file that need not be cached any longer."""

    path: str
    position: int
    size: int


class PageCacheBudget:
    """Ranges of whole pages, the oldest first."""

    __slots__ = ("_added", "_drops", "_of_file", "_ranges", "default_bytes", "dropped_bytes", "size_bytes")

    def __init__(self, default_bytes: int = NO_BUDGET) -> None:
        self.default_bytes = default_bytes  # for logs that have no value of their own
        self._ranges: OrderedDict[int, tuple[LogFile, int, int]] = OrderedDict()  # number → file, start, end
        self._of_file: dict[LogFile, list[int]] = {}  # numbers of a file's ranges, ascending
        self._added = 0  # number of the newest range
        self._drops: list[tuple[LogFile, int, int]] = []
        self.size_bytes = 0
        self.dropped_bytes = 0

    def add(self, file: LogFile, start: int, end: int, budget_bytes: int | None) -> int:
        """Count the whole pages of the synced bytes [start, end), and trim; return where the next sync begins.

        budget_bytes: -1 counts and drops nothing, None stands for the default.
        """
        first, last = page_floor(start), page_floor(end)
        budget = self.default_bytes if budget_bytes is None else budget_bytes
        if budget == NO_BUDGET or last <= first:
            return max(first, last)
        self._append(file, first, last)
        self.size_bytes += last - first
        self._trim(budget)
        return last

    def forget(self, file: LogFile) -> None:
        """Drop no more of a file, and count nothing of it."""
        for number in self._of_file.pop(file, ()):
            _, start, end = self._ranges.pop(number)
            self.size_bytes -= end - start

    def take_drops(self) -> list[Drop]:
        """Take out what has fallen out of the budget since the last call, in order."""
        drops, self._drops = self._drops, []
        return [Drop(file.path, start, end - start) for file, start, end in drops]

    def _append(self, file: LogFile, start: int, end: int) -> None:
        if self._added in self._ranges:
            newest, newest_start, newest_end = self._ranges[self._added]
            if newest is file and newest_end == start:
                self._ranges[self._added] = (file, newest_start, end)
                return
        self._added += 1
        self._ranges[self._added] = (file, start, end)
        self._of_file.setdefault(file, []).append(self._added)

    def _trim(self, budget_bytes: int) -> None:
        while self.size_bytes > budget_bytes:
            number, (file, start, end) = next(iter(self._ranges.items()))
            cut = min(end, start + page_floor(self.size_bytes - budget_bytes + PAGESIZE - 1))
            if cut < end:
                self._ranges[number] = (file, cut, end)
            else:
                del self._ranges[number]
                numbers = self._of_file[file]
                numbers.remove(number)
                if not numbers:
                    del self._of_file[file]
            self.size_bytes -= cut - start
            self.dropped_bytes += cut - start
            self._drops.append((file, start, cut))

    def __repr__(self) -> str:
        return f"PageCacheBudget({self.size_bytes} bytes in {len(self._ranges)} ranges, dropped={self.dropped_bytes})"


def page_floor(position: int) -> int:
    """Return the page boundary at or below a position."""
    return position - position % PAGESIZE
