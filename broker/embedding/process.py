"""A broker as a child process, seen from the program that started it.

Nothing here, nor in `broker.embedded`, imports a package of ours that a program may have under the same name (config,
storage, protocol): the child finds ours first.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import native
from broker.embedding.messages import MAX_LINE_BYTES, STOP_TIMEOUT_S, BrokerFailed, Order, Ready, Refused, pack, unpack

COMMAND = (sys.executable, "-P", "-m", "broker.embedding.child")


class ChildBroker:
    """Starts processes, one after the other."""

    def __init__(self, directory: Path, log_path: Path) -> None:
        self._directory = directory
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None  # between start and stop, also when it has died
        self._channel: socket.socket | None = None  # to that process; whose end tells it that we are gone

    @property
    def pid(self) -> int:
        """The process, or 0."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_running(self) -> bool:
        """Tell whether there is a process, and it lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, settings: Mapping[str, str], timeout_s: float) -> Ready:
        """Start a process and wait until it serves. Raises: BrokerFailed."""
        self._channel, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((native.ROOT, *sys.path))}
        with theirs, self._log_path.open("ab") as log:
            # A session of its own: Ctrl-C is for the program, which then stops its broker.
            self._process = subprocess.Popen(
                COMMAND, stdin=theirs.fileno(), stdout=log, stderr=log, env=environment, start_new_session=True
            )
        try:
            answer = self._ask(Order(dict(settings), str(self._directory)), timeout_s)
        except BaseException:  # Ctrl-C too: nobody could stop it later
            self.kill()
            raise
        if isinstance(answer, Ready):
            return answer
        status = self._wait(STOP_TIMEOUT_S)
        raise BrokerFailed(answer.reason if answer is not None else f"its process {ended_how(status)}")

    def _ask(self, order: Order, timeout_s: float) -> Ready | Refused | None:
        """Send the order and wait for the answer; None if the process ends without one."""
        assert self._channel is not None
        self._channel.settimeout(timeout_s)
        try:
            with suppress(ConnectionError):  # it has ended already, which is seen by the next line
                self._channel.sendall(pack(order))
            with self._channel.makefile("rb") as incoming:
                line = incoming.readline(MAX_LINE_BYTES)
        except TimeoutError:
            raise BrokerFailed(f"it was not ready within {timeout_s:g} s") from None
        answer: Ready | Refused | None = unpack(line) if line else None
        return answer

    def stop(self) -> None:
        """Stop the process properly. Raises: BrokerFailed if it did not end well."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            status = self._wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"it did not stop within {STOP_TIMEOUT_S:g} s and was killed") from None
        if status:
            raise BrokerFailed(f"its process {ended_how(status)}")

    def kill(self) -> None:
        """End the process as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._wait(None)

    def _wait(self, timeout_s: float | None) -> int:
        assert self._process is not None
        status = self._process.wait(timeout_s)
        self._process = None
        if self._channel is not None:
            self._channel.close()
        return status


def ended_how(status: int) -> str:
    """Describe an exit status."""
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
