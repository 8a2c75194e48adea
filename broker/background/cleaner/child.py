"""The broker's half of a cleaner process: start it, give it a task, hear of its progress, kill it.

The process is started in a thread of a pool, since `vfork` as subprocess does it holds its caller up until the child
has had a processor and read its program: little on an idle machine, hundreds of milliseconds on a busy one. The kernel
ends the process when the *thread* that started it ends, so those of the pool live until the broker stops.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from broker.background.cleaner.pipe import (
    BrokenPipeline,
    Clean,
    Cleaned,
    Failed,
    Fault,
    Progressed,
    SetRate,
    Unpacker,
    pack,
)

COMMAND = (sys.executable, "-P", "-m", "broker.background.cleaner.process")

Blocking = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking call in a thread that lives on after it."""


class ChildDied(Exception):
    """The process ended in the middle of its task; says how."""


class CleaningFailed(Exception):
    """The process gave its task up."""

    def __init__(self, fault: Fault, reason: str, details: str) -> None:
        super().__init__(reason)
        self.fault = fault
        self.details = details


class Child(Protocol):
    """What cleans one log at a time."""

    @property
    def is_alive(self) -> bool:
        """Tell whether it can take another task."""
        ...

    async def clean(self, order: Clean, report: Callable[[Any], None]) -> Any:
        """Carry out a task. Raises: ChildDied, CleaningFailed."""
        ...

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the pace of the running task."""
        ...

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        ...

    async def ended(self) -> None:
        """Wait until a killed process is gone: from then on it touches no file."""
        ...


class CleanerChild:
    """A child process and the socket to it.

    Pipes would do for the child, not for the loop: uvloop closes a pipe's descriptor and then the file object that was
    handed to it, which closes whatever a thread has opened under the same number meanwhile. Sockets it detaches first.
    """

    def __init__(self, process: subprocess.Popen[bytes], blocking: Blocking) -> None:
        self._process = process
        self._blocking = blocking
        self._to_child: asyncio.WriteTransport | None = None  # set by start
        self._outcome: asyncio.Future[Any] | None = None  # of the running task
        self._report: Callable[[Any], None] | None = None
        self._is_closed = False  # set when the process was killed or has closed its end

    @classmethod
    async def start(cls, blocking: Blocking, command: Sequence[str] = COMMAND) -> CleanerChild:
        """Start a process. Raises: OSError."""
        ours, theirs = socket.socketpair()
        try:
            process = await blocking(partial(_spawn, command, theirs))
        except BaseException:
            ours.close()  # a process that was started nevertheless ends with that
            raise
        child = cls(process, blocking)
        loop = asyncio.get_running_loop()
        try:
            child._to_child, _ = await loop.create_connection(lambda: _Receiver(child), sock=ours)
        except BaseException:
            ours.detach()  # a transport that comes to nothing has closed it
            process.kill()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Tell whether it can take another task."""
        return not self._is_closed

    async def clean(self, order: Clean, report: Callable[[Any], None]) -> Any:
        """Carry out a task. Raises: ChildDied, CleaningFailed."""
        assert self._outcome is None, "one task at a time"
        if self._is_closed:
            raise ChildDied(await self._how_it_ended())
        assert self._to_child is not None
        outcome = self._outcome = asyncio.get_running_loop().create_future()
        self._report = report
        self._to_child.write(pack(order))
        try:
            message = await outcome
        finally:
            self._outcome = None
        if isinstance(message, Cleaned):
            return message.result
        if isinstance(message, Failed):
            raise CleaningFailed(*message)
        raise ChildDied(await self._how_it_ended())

    def set_rate(self, bytes_per_second: float) -> None:
        """Change the pace of the running task."""
        if self._to_child is not None and not self._is_closed:
            self._to_child.write(pack(SetRate(bytes_per_second)))

    def kill(self) -> None:
        """End it at once."""
        self._is_closed = True
        self._process.kill()

    async def ended(self) -> None:
        """Wait until the process is gone, and let go of the socket."""
        if self._to_child is not None:
            self._to_child.close()
        await self._blocking(self._process.wait)

    async def _how_it_ended(self) -> str:
        self.kill()  # one that has closed its end but lives on is of no use
        status = await self._blocking(self._process.wait)
        if status < 0:
            number = -status
            hint = ", as when memory runs out" if number == signal.SIGKILL else ""
            return f"the cleaner process was ended by signal {number}{hint}"
        return f"the cleaner process ended with status {status}"

    def received(self, message: Any) -> None:
        """Take a message of the process."""
        if isinstance(message, Progressed):
            if self._report is not None:
                self._report(message.progress)
        elif self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(message)

    def closed(self) -> None:
        """Take note that nothing more will come."""
        self._is_closed = True
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(None)


def _spawn(command: Sequence[str], end: socket.socket) -> subprocess.Popen[bytes]:
    """Start the child with its end of the socket, which is closed here: nobody else knows when it is no longer used."""
    # An installed broker or one run from its sources: the child finds the same code.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with end:
        number = end.fileno()
        return subprocess.Popen([*command, str(os.getpid())], stdin=number, stdout=number, env=environment)


class _Receiver(asyncio.Protocol):
    """The reading end of a child's output."""

    def __init__(self, child: CleanerChild) -> None:
        self._child = child
        self._unpacker = Unpacker()

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._unpacker.feed(data):
                self._child.received(message)
        except BrokenPipeline:
            self._child.kill()

    def connection_lost(self, failure: Exception | None) -> None:
        self._child.closed()
