"""A client beside the load that asks for the versions once a millisecond: its longest wait is the loop's longest stall.

It is a process of its own, so that a load that computes does not make it late, and sleeps between, so that it does not
make the load late either.
"""

import contextlib
import multiprocessing
import os
import socket
import time
from multiprocessing.connection import Connection

from tests.bench.load import connect
from tests.bench.members import frame

_VERSION = 0
_INTERVAL_S = 0.001
_PRIORITY = -10


class Probe:
    """Runs from its making until it is asked what it has seen."""

    def __init__(self, address: tuple[str, int]) -> None:
        context = multiprocessing.get_context("fork")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_ask, args=(address, theirs), daemon=True)
        self._process.start()
        self._ours.recv()

    def waits_ms(self) -> list[float]:
        """Stop asking; return all waits, sorted."""
        self._ours.send(None)
        waits: list[float] = self._ours.recv()
        self._process.join()
        return sorted(waits)


def _ask(address: tuple[str, int], parent: Connection) -> None:
    with contextlib.suppress(OSError):
        os.nice(_PRIORITY)
    request = frame("api_versions", _VERSION)
    waits: list[float] = []
    with connect(address) as connection:
        _exchange(connection, request)
        parent.send(None)
        while not parent.poll():
            began = time.perf_counter()
            _exchange(connection, request)
            took = time.perf_counter() - began
            waits.append(1000 * took)
            time.sleep(max(0.0, _INTERVAL_S - took))
    parent.send(waits)


def _exchange(connection: socket.socket, request: bytes) -> None:
    """Send the request, receive the answer to its end."""
    connection.sendall(request)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    assert len(connection.recv(size, socket.MSG_WAITALL)) == size, "closed under load"
