"""A broker as a process: its event loop, its log on standard output, its signals, its exit status."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Protocol

import uvloop

from broker.metadata.errors import MetadataError
from broker.runtime.descriptors import raise_limit
from broker.runtime.failures import for_operator
from broker.runtime.garbage import keep_what_is_there, looking_later
from broker.runtime.loggers import log_to, set_first_levels
from broker.runtime.pools import share_interpreter
from broker.server import Broker
from config.build import broker_config
from config.resolve import Resolver
from storage.errors import StorageError

START_FAILURES = (StorageError, MetadataError, OSError)
"""What a start may fail with that is not an error of ours."""


class Owner(Protocol):
    """Whoever wants to know how its broker is."""

    def begun(self, broker: Broker) -> None:
        """Take note of the broker, which may be asked to stop from now on."""

    def ready(self, broker: Broker) -> None:
        """Take note that clients are served."""

    def failed(self, reason: str) -> None:
        """Take note that the start has failed."""


class Operator:
    """The owner of a daemon: reads its log, and the one line on standard error that a failed start leaves."""

    def begun(self, broker: Broker) -> None:
        """Say nothing: the log does."""

    def ready(self, broker: Broker) -> None:
        """Say nothing: the log does."""

    def failed(self, reason: str) -> None:
        """Say why the start has failed."""
        print(f"odradek: {reason}", file=sys.stderr)


def run(resolver: Resolver, owner: Owner | None = None) -> int:
    """Run a broker until it is asked to stop; the exit status."""
    share_interpreter()
    log_to(sys.stdout)
    set_first_levels(broker_config(resolver).logger_levels)
    status = uvloop.run(_serve(resolver, owner or Operator()))
    logging.shutdown()
    return status


async def _serve(resolver: Resolver, owner: Owner) -> int:
    broker = Broker(resolver, raise_limit(), looking_later)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, broker, number)
    owner.begun(broker)
    try:
        await broker.start()
    except START_FAILURES as failure:
        owner.failed(for_operator(failure))
        return 1
    keep_what_is_there()  # what the start made stays for good, so the collector, off until now, passes it over
    broker.say_ready()
    owner.ready(broker)
    await broker.wait()
    try:
        return await broker.stop()
    except TimeoutError:
        logging.shutdown()
        os._exit(1)  # a thread that hangs in the disk must not keep the process


def _on_signal(broker: Broker, number: signal.Signals) -> None:
    """Stop at the first signal; at the second one end at once, whatever is open."""
    if not broker.ask_to_stop(number.name):
        os._exit(128 + number)
