"""`odradek serve [server.properties] [--override key=value …]`: the broker in the foreground.

The environment variables are those of Kafka's official image. The exit status is the broker's: 0 after a clean stop.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from broker.cli.settings import read_settings
from broker.runtime.garbage import load_modules


def run(arguments: Sequence[str]) -> int:
    """Run a broker until it is asked to stop."""
    resolver = read_settings("serve", "Run the broker in the foreground.", arguments)
    # As process 1 of a container, which is sent no signal that it does not handle; the broker does so once it runs.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    (broker,) = load_modules("broker.serve")  # after the arguments: a refusal does not pay for the whole broker
    status: int = broker.run(resolver)
    return status
