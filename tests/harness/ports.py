"""Free loopback ports, each handed out once per test run."""

from __future__ import annotations

import os
import socket

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes a port before its broker binds it.
FIRST_PORT = 20_000
PORT_COUNT = 12_000

_handed_out = 0


def _place() -> tuple[int, int, int]:
    """Return the number of the run, of this worker in it, and of its workers: pytest-xdist runs a few side by side."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return os.getpid(), 0, 1
    return os.getppid(), int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])


def free_port() -> int:
    """Return a loopback TCP port nobody listens on and this run has not handed out before.

    Runs side by side start at different places in the range. The workers of one run never get the same port: a broker
    that a test has stopped must find its own free when it starts again.
    """
    global _handed_out
    run, worker, workers = _place()
    count = PORT_COUNT // workers
    while _handed_out < count:
        port = FIRST_PORT + (run * 97 + _handed_out) % count * workers + worker
        _handed_out += 1
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise RuntimeError(f"no free port left in {FIRST_PORT}..{FIRST_PORT + PORT_COUNT - 1}")
