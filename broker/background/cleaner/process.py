"""The cleaner's child process: rewrites segments into `.cleaned` files, away from the broker's loop and memory.

It reads sources, writes files of that suffix and nothing else; whether they take the sources' place is the broker's
decision. It ends with the broker, in three ways that need no one's cooperation: the kernel kills it when the thread
that started it ends, its listening thread ends it when the broker's end closes, and it looks at its parent at
every step. It runs at a low priority, is the first to go when memory is short, and ignores the signals of a terminal
or a service manager: the broker ends it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from struct import Struct
from typing import Any

from broker.background.cleaner.pipe import (
    Clean,
    Cleaned,
    Failed,
    Fault,
    Message,
    Progressed,
    SetRate,
    Unpacker,
    pack,
)
from storage.compaction.rewrite import rewrite
from storage.env.clock import SystemClock
from storage.env.posix import PosixFileSystem
from storage.errors import DISK_FAULTS, Uncleanable

NICENESS = 10
"""Weighs a tenth of the broker: hardly felt by requests, yet never starved on a machine that is full of work."""
SLICE_NS = 100_000
"""How long it may keep a core from a request that has just come; the kernel's default is near 3 ms (Linux >= 6.12)."""
OOM_SCORE = 500
REPORT_EVERY_NS = 500_000_000
LONGEST_SLEEP_S = 0.5
"""Bounds how late a changed pace, or the end of the broker, is noticed."""
RECEIVE_BYTES = 65_536

_PR_SET_PDEATHSIG = 1
_SYS_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
_SCHED_ATTR = Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period
Job = Callable[[Any, Callable[[Any], None]], Any]
"""(task, report) → result."""


class Pace:
    """Holds the process to a number of bytes a second by sleeping off what came too early."""

    def __init__(self, now_ns: Callable[[], int], sleep: Callable[[float], None]) -> None:
        self._now_ns = now_ns
        self._sleep = sleep
        self._rate = float("inf")  # written by the listening thread
        self._seen_ns = now_ns()  # when the bytes so far were counted
        self._paid_ns = self._seen_ns  # until when they are spread
        self._spent = 0  # of the running task

    def set_rate(self, bytes_per_second: float) -> None:
        """Go on at another pace from now on."""
        self._rate = max(bytes_per_second, 1.0)

    def begin(self) -> None:
        """Count a new task's bytes from nothing; the time since the last one earns nothing."""
        self._spent = 0
        self._seen_ns = self._now_ns()

    def reach(self, spent: int) -> None:
        """Sleep until `spent` bytes of the task, read and written, are within the rate."""
        fresh, self._spent = spent - self._spent, spent
        rate = self._rate
        self._paid_ns = max(self._paid_ns, self._seen_ns) + int(fresh * 1e9 / rate)
        while (early_ns := self._paid_ns - self._now_ns()) > 0:
            self._sleep(min(early_ns / 1e9, LONGEST_SLEEP_S))
            if self._rate != rate:
                self._paid_ns = self._now_ns()
        self._seen_ns = self._now_ns()


class Reporter:
    """What the job reports to: paces it, sends its progress now and then, ends it when the broker is gone."""

    def __init__(self, pace: Pace, send: Callable[[Message], None], now_ns: Callable[[], int], parent_pid: int) -> None:
        self._pace = pace
        self._send = send
        self._now_ns = now_ns
        self._parent_pid = parent_pid
        self._sent_ns = 0

    def __call__(self, progress: Any) -> None:
        """Take note of a step."""
        if os.getppid() != self._parent_pid:
            os._exit(0)
        self._pace.reach(progress.bytes_read + progress.bytes_written)
        now_ns = self._now_ns()
        if progress.finished is not None or now_ns - self._sent_ns >= REPORT_EVERY_NS:
            self._sent_ns = now_ns
            self._send(Progressed(progress))


def run_task(job: Callable[[], Any]) -> Cleaned | Failed:
    """Run one task to its end, whatever it is."""
    try:
        return Cleaned(job())
    except Exception as failure:  # a background job's border: the broker decides what becomes of it
        details = "" if isinstance(failure, Uncleanable) else traceback.format_exc()  # the former's reason says it all
        return Failed(fault_of(failure), f"{type(failure).__name__}: {failure}", details)


def fault_of(failure: Exception) -> Fault:
    """Tell whose failure it was; what is neither the disk's nor the machine's is the data's, as in Kafka."""
    if isinstance(failure, MemoryError):
        return Fault.OTHER
    cause = failure if isinstance(failure, OSError) else failure.__cause__
    if isinstance(cause, OSError):
        return Fault.DISK if cause.errno in DISK_FAULTS else Fault.OTHER
    return Fault.DATA


def serve(job: Job, incoming: int, outgoing: int, parent_pid: int) -> None:
    """Run tasks one after the other until the broker closes its end."""
    clock = SystemClock()
    pace = Pace(clock.monotonic_ns, time.sleep)
    orders: SimpleQueue[Clean] = SimpleQueue()
    threading.Thread(target=_listen, args=(incoming, orders.put, pace), daemon=True).start()

    def send(message: Message) -> None:
        _write(outgoing, pack(message))

    while True:
        order = orders.get()
        pace.begin()
        reporter = Reporter(pace, send, clock.monotonic_ns, parent_pid)
        send(run_task(lambda task=order.task, report=reporter: job(task, report)))  # type: ignore[misc]


def _listen(incoming: int, enqueue: Callable[[Clean], None], pace: Pace) -> None:
    """Receive until the broker's end closes, then end the process in the middle of whatever it does."""
    unpacker = Unpacker()
    try:
        while data := os.read(incoming, RECEIVE_BYTES):
            for message in unpacker.feed(data):
                if isinstance(message, Clean | SetRate):
                    pace.set_rate(message.bytes_per_second)
                if isinstance(message, Clean):
                    enqueue(message)
    finally:
        os._exit(0)


def _write(outgoing: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(outgoing, view) :]
        except ConnectionError:
            os._exit(0)


def settle(parent_pid: int) -> None:
    """Tie the process to its parent, and step behind it in the queues for the processor and for memory."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError, AttributeError):  # not Linux: the listening thread is left
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it ended before the line above
        os._exit(0)
    with suppress(OSError):
        os.nice(NICENESS)
    _take_short_slices()
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write(str(OOM_SCORE))


def _take_short_slices() -> None:
    """Ask for short turns: a core that runs this process is given to a waking broker only when the turn ends.

    A low priority alone does not help there. Kernels that do not know the wish ignore it. Source: sched_setattr(2).
    """
    if _SYS_SCHED_SETATTR is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, niceness, 0, SLICE_NS, 0, 0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).syscall(_SYS_SCHED_SETATTR, 0, attributes, 0)


def clean_log(task: Any, report: Callable[[Any], None]) -> Any:
    """Rewrite one log; the job of this process."""
    return rewrite(task, PosixFileSystem(), SystemClock(), report=report)


def main(job: Job = clean_log) -> None:
    """Serve the process that started this one."""
    parent_pid = int(sys.argv[1])
    settle(parent_pid)
    gc.disable()  # a walk makes tuples by the million and no cycles
    outgoing = os.dup(1)
    os.dup2(2, 1)  # a stray print must not look like a message
    serve(job, 0, outgoing, parent_pid)


if __name__ == "__main__":
    main()
