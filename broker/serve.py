"""A broker as a process: its event loop, its log on standard output, its exit status."""

from __future__ import annotations

import logging
import sys

import uvloop

from broker.runtime.loggers import log_to
from broker.runtime.pools import share_interpreter
from broker.server import Broker
from config.resolve import Resolver


def run(resolver: Resolver) -> int:
    """Run a broker until it is asked to stop; the exit status."""
    share_interpreter()
    log_to(sys.stdout)

    async def main() -> int:
        return await Broker(resolver).run()

    status = uvloop.run(main())
    logging.shutdown()
    return status
