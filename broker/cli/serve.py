"""`odradek serve [server.properties] [--override key=value …]`: the broker in the foreground.

The environment variables are those of Kafka's official image. The exit status is the broker's: 0 after a clean stop.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Sequence
from importlib import import_module

from broker.cli.settings import read_settings

GARBAGE_OF_IMPORTS = (10_000, 20, 100)
"""How seldom garbage is looked for while modules are loaded: nearly all they make stays. Never looking costs memory."""


def run(arguments: Sequence[str]) -> int:
    """Run a broker until it is asked to stop."""
    resolver = read_settings("serve", "Run the broker in the foreground.", arguments)
    # As process 1 of a container, which is sent no signal that it does not handle; the broker does so once it runs.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    usual = gc.get_threshold()
    gc.set_threshold(*GARBAGE_OF_IMPORTS)
    broker = import_module("broker.serve")  # after the arguments: a refusal does not pay for the whole broker
    gc.disable()  # what a start makes stays: nothing is looked for until the broker is ready
    gc.set_threshold(*usual)
    status: int = broker.run(resolver)
    return status
