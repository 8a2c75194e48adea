"""Logs checked side by side, each in a process: reading is the disk's work, checksums and records are a processor's.

Each process has a pipe of its own: the number of a log goes in, what was found comes out, and in between how much was
read. No thread is needed for that, and a process that dies is seen by the end of its pipe.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from broker.offline.verify.context import LogContext, LogResult
from broker.offline.verify.findings import Finding, Findings
from broker.offline.verify.log import LogCheck
from storage.env.fs import FileSystem

_COUNTED_BYTES = 4 << 20
"""How much is read before it is told."""

Checked = tuple[LogResult, list[Finding]]


class WorkerDied(Exception):
    """A process ended before its work did; the operating system may have been short of memory."""


def check_logs(
    fs: FileSystem, contexts: Sequence[LogContext], jobs: int, advance: Callable[[int], None]
) -> Iterator[Checked]:
    """Check logs in so many processes at most, or in this one; in no order. Raises: WorkerDied."""
    if jobs <= 1 or len(contexts) <= 1:
        for context in contexts:
            yield _check(fs, context, advance)
        return
    workers = _start(fs, contexts, min(jobs, len(contexts)))
    try:
        yield from _collect(list(workers), len(contexts), advance)
    finally:
        for pipe, process in workers.items():
            pipe.close()
            process.terminate()
            process.join()


def _check(fs: FileSystem, context: LogContext, advance: Callable[[int], None]) -> Checked:
    findings = Findings()
    result = LogCheck(fs, context, findings, advance).run()
    return result, findings.all()


def _start(fs: FileSystem, contexts: Sequence[LogContext], count: int) -> dict[Connection, ForkProcess]:
    context = multiprocessing.get_context("fork")
    workers: dict[Connection, ForkProcess] = {}
    for _ in range(count):
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(fs, contexts, there, [*workers, here]), daemon=True)
        process.start()
        there.close()  # or its end would not be seen
        workers[here] = process
    return workers


def _collect(pipes: list[Connection], count: int, advance: Callable[[int], None]) -> Iterator[Checked]:
    """Hand out the logs one after the other, and give what comes back."""
    numbers = iter(range(count))
    for pipe in pipes:
        pipe.send(next(numbers))
    left = count
    while left:
        ready = wait(pipes)
        for pipe in [one for one in pipes if one in ready]:
            try:
                said: int | Checked = pipe.recv()
            except EOFError:
                raise WorkerDied from None
            if isinstance(said, int):
                advance(said)
                continue
            left -= 1
            following = next(numbers, None)
            if following is not None:
                pipe.send(following)
            yield said


def _work(fs: FileSystem, contexts: Sequence[LogContext], pipe: Connection, others: list[Connection]) -> None:
    """Check the logs that are asked for, until nobody asks any more; Ctrl-C is for who started the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:
        other.close()
    unsaid = 0

    def advance(count: int) -> None:
        nonlocal unsaid
        unsaid += count
        if unsaid >= _COUNTED_BYTES:
            pipe.send(unsaid)
            unsaid = 0

    try:
        while True:
            checked = _check(fs, contexts[pipe.recv()], advance)
            pipe.send(unsaid)
            unsaid = 0
            pipe.send(checked)
    except (EOFError, BrokenPipeError):
        return
