"""A port that nobody else gets, over any number of starts of a broker.

A socket that is bound and does not listen holds the port: the kernel gives it to nobody who asks for any port, neither
to listen nor to connect from. With SO_REUSEADDR on both, the broker may bind it and listen all the same. So nothing
can take the port between our choice and the broker's start, nor while the broker is down.
"""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


class ReservedPort:
    """A free loopback port, ours until it is closed."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()
