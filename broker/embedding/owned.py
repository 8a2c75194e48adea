"""A broker that belongs to the process that started it, and does not outlive it.

The outcome of the start goes back as a line; after that nothing is said. The end of the socket tells that the owner is
gone, however that happened: then the broker stops, and removes the directory that nobody else would remove. SIGTERM
stops it with everything left in place.
"""

from __future__ import annotations

import asyncio
import shutil
import socket

from broker.embedding.messages import Order, Ready, Refused, pack
from broker.embedding.settings import load_settings, ready
from broker.serve import run as serve
from broker.server import Broker
from config.errors import InvalidConfig


class Parent:
    """The owner, at the other end of the socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.warnings: tuple[str, ...] = ()
        self.is_gone = False

    def begun(self, broker: Broker) -> None:
        """Listen for the end of the owner."""
        self._channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._channel, self._hung_up, broker)

    def ready(self, broker: Broker) -> None:
        """Tell that clients are served, and where."""
        self._say(ready(broker, self.warnings))

    def failed(self, reason: str) -> None:
        """Tell why nobody will be served."""
        self._say(Refused(reason))

    def _hung_up(self, broker: Broker) -> None:
        asyncio.get_running_loop().remove_reader(self._channel)
        self.is_gone = True
        broker.ask_to_stop("the program that started it is gone")

    def _say(self, message: Ready | Refused) -> None:
        try:
            self._channel.send(pack(message))  # all of it: these are the first bytes on this way
        except ConnectionError:
            self.is_gone = True


def run(order: Order, channel: socket.socket) -> int:
    """Run a broker until it is asked to stop, or its owner is gone; the exit status."""
    parent = Parent(channel)
    try:
        resolver, parent.warnings = load_settings(order.settings)
    except InvalidConfig as error:
        parent.failed(error.message)
        return 1
    status = serve(resolver, parent)
    if parent.is_gone:
        shutil.rmtree(order.directory, ignore_errors=True)
    return status
