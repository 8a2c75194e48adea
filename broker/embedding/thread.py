"""A broker in a thread of the program that wants it, with an event loop of its own.

Nothing of the program is changed: no handler of signals, no limit, nothing of the interpreter. What the broker logs
goes through the loggers of its packages to wherever the program sends such lines; its status page listens there too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

import uvloop

from broker.embedding.messages import STOP_TIMEOUT_S, BrokerFailed, Ready
from broker.embedding.settings import load_settings, ready
from broker.runtime.descriptors import limit_in_force
from broker.runtime.failures import for_operator
from broker.serve import START_FAILURES
from broker.server import Broker
from config.errors import InvalidConfig
from config.load import Loaded


class _Handle(NamedTuple):
    """What asks a broker to stop, from another thread."""

    loop: asyncio.AbstractEventLoop
    broker: Broker

    def ask_to_stop(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: it has stopped by itself
            self.loop.call_soon_threadsafe(self.broker.ask_to_stop, "asked by the program it lives in")


class _Run:
    """One run of a broker, from the thread's start to its end."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        # Set by the thread: how to stop it, how its start went, how it ended.
        self.handle: Future[_Handle] = Future()
        self.ready: Future[Ready] = Future()
        self.status: Future[int] = Future()
        self.thread = threading.Thread(target=self._run, name="odradek", daemon=True)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self.status.set_result(runner.run(self._serve()))
        except BaseException as failure:  # whatever it is, whoever waits for this thread has to hear of it
            for promise in (self.handle, self.ready, self.status):
                if not promise.done():
                    promise.set_exception(failure)

    async def _serve(self) -> int:
        broker = Broker(self._loaded.resolver, limit_in_force())
        self.handle.set_result(_Handle(asyncio.get_running_loop(), broker))
        await broker.start()
        broker.say_ready()
        self.ready.set_result(ready(broker, self._loaded.warnings))
        await broker.wait()
        return await broker.stop()


class ThreadBroker:
    """Runs brokers, one after the other."""

    def __init__(self) -> None:
        self._run: _Run | None = None  # between start and stop

    @property
    def pid(self) -> int:
        """There is no process of its own."""
        return 0

    @property
    def is_running(self) -> bool:
        """Tell whether there is a broker that has not ended by itself."""
        return self._run is not None and self._run.thread.is_alive()

    def start(self, settings: Mapping[str, str], timeout_s: float) -> Ready:
        """Start a thread and wait until it serves. Raises: BrokerFailed."""
        try:
            run = self._run = _Run(load_settings(settings))
        except InvalidConfig as error:
            raise BrokerFailed(error.message) from error
        run.thread.start()
        try:
            return run.ready.result(timeout_s)
        except TimeoutError:
            run.handle.result().ask_to_stop()
            raise BrokerFailed(f"it was not ready within {timeout_s:g} s") from None
        except START_FAILURES as failure:
            self.join()
            raise BrokerFailed(for_operator(failure)) from failure
        except BaseException:  # Ctrl-C too
            run.handle.result().ask_to_stop()
            raise

    def stop(self) -> None:
        """Stop the broker properly. Raises: BrokerFailed if it did not end well."""
        run = self._run
        if run is None:
            return
        run.handle.result().ask_to_stop()
        self.join()
        failure = run.status.exception()
        if failure is not None:
            raise BrokerFailed(f"it ended with {type(failure).__name__}: {failure}") from failure
        if run.status.result():
            raise BrokerFailed(f"it ended with status {run.status.result()}; its log says why")

    def kill(self) -> None:
        """Refuse: a thread cannot be killed."""
        raise BrokerFailed("only a broker in a child process can be killed, this one is in a thread (in_process=True)")

    def join(self) -> None:
        """Wait for the end of the thread. Raises: BrokerFailed."""
        assert self._run is not None
        run, self._run = self._run, None
        run.thread.join(STOP_TIMEOUT_S)
        if run.thread.is_alive():
            raise BrokerFailed(f"it did not stop within {STOP_TIMEOUT_S:g} s")
