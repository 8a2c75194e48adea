"""Free loopback ports, each handed out once per test run."""

from __future__ import annotations

import os
import socket

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes a port before its broker binds it.
FIRST_PORT = 20_000
PORT_COUNT = 12_000

_handed_out = 0


def free_port() -> int:
    """Return a loopback TCP port nobody listens on and this run has not handed out before.

    Runs side by side start at different places in the range.
    """
    global _handed_out
    while _handed_out < PORT_COUNT:
        port = FIRST_PORT + (os.getpid() * 97 + _handed_out) % PORT_COUNT
        _handed_out += 1
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise RuntimeError(f"no free port left in {FIRST_PORT}..{FIRST_PORT + PORT_COUNT - 1}")
