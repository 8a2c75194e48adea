"""Logs checked side by side, each in a process: reading is the disk's work, checksums and records are a processor's."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.offline.verify.context import LogContext, LogResult
from broker.offline.verify.findings import Finding, Findings
from broker.offline.verify.log import LogCheck
from storage.env.fs import FileSystem

_COUNTED_BYTES = 1 << 20
_POLL_S = 0.1

Checked = tuple[LogResult, list[Finding]]


class _Counter:
    """Bytes that all processes have read."""

    def __init__(self) -> None:
        self._shared: Any = multiprocessing.get_context("fork").Value("q", 0)
        self._waiting = 0

    def advance(self, count: int) -> None:
        """Note that so much more is read, now and then."""
        self._waiting += count
        if self._waiting >= _COUNTED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Note what waits to be noted."""
        with self._shared.get_lock():
            self._shared.value += self._waiting
        self._waiting = 0

    def value(self) -> int:
        """Return how much was read."""
        return int(self._shared.value)


_fs: FileSystem | None = None
_counter: _Counter | None = None


def _begin(fs: FileSystem, counter: _Counter) -> None:
    """Prepare a process; whoever started it decides about its end."""
    global _fs, _counter  # the way of a pool to give its processes something
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _fs, _counter = fs, counter


def _check(context: LogContext) -> Checked:
    assert _fs is not None and _counter is not None
    findings = Findings()
    result = LogCheck(_fs, context, findings, _counter.advance).run()
    _counter.flush()
    return result, findings.all()


def check_logs(
    fs: FileSystem, contexts: Sequence[LogContext], jobs: int, advance: Callable[[int], None]
) -> Iterator[Checked]:
    """Check logs in so many processes at most, or in this one; in no order."""
    if jobs <= 1 or len(contexts) <= 1:
        for context in contexts:
            findings = Findings()
            yield LogCheck(fs, context, findings, advance).run(), findings.all()
        return
    counter, told = _Counter(), 0
    pool = multiprocessing.get_context("fork").Pool(min(jobs, len(contexts)), _begin, (fs, counter))
    with pool:
        waiting = pool.imap_unordered(_check, contexts)
        left = len(contexts)
        while left:
            try:
                checked = waiting.next(_POLL_S)
                left -= 1
                yield checked
            except multiprocessing.TimeoutError:
                pass
            read = counter.value()
            advance(read - told)
            told = read
