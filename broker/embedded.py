"""A broker for programs and tests: `with EmbeddedBroker() as broker: … broker.bootstrap_servers …`.

It is a child process unless `in_process` asks for a thread of the program itself, and has a temporary directory unless
one is given. What it needs is imported when it is started, so this module costs next to nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from broker.embedding.messages import BrokerFailed, Ready
from broker.embedding.ports import HOST, ReservedPort
from broker.embedding.process import ChildBroker

__all__ = ["BrokerFailed", "EmbeddedBroker"]

T = TypeVar("T")
Value = str | int | float | bool

LOG_TAIL_LINES = 40
START_TIMEOUT_S = 30.0
OURS = ("broker", "config", "native", "protocol", "storage")
"""Our packages, which a program must not have under the same names to run a broker in its own process."""
WHERE_DATA_LIES = ("log.dirs", "log.dir")
WHERE_IT_LISTENS = ("listeners", "advertised.listeners")
HTTP_LISTENER = "odradek.http.listener"
FOR_TESTS = {"group.initial.rebalance.delay.ms": "0"}
"""What differs from the defaults of a daemon: a group's first member need not wait for others."""


class _Host(Protocol):
    """What runs the broker."""

    @property
    def pid(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    def start(self, settings: Mapping[str, str], timeout_s: float) -> Ready: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class EmbeddedBroker:
    """One broker on loopback, for as long as the `with` block lasts, or from `start` to `close`."""

    def __init__(
        self,
        config: Mapping[str, Value] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        in_process: bool = False,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Prepare a broker.

        `config` has Kafka's keys and is all that counts: no file, and no KAFKA_* variable of the environment.
        A `data_dir` that is given is kept, and what a broker left there is found again. `port` 0 is a free one, which
        stays the same over restarts.
        """
        self._config = {name: _text(value) for name, value in (config or {}).items()}
        if data_dir is not None and any(name in self._config for name in WHERE_DATA_LIES):
            raise ValueError("data_dir and log.dirs say the same: give one of them")
        self._wanted_data_dir = Path(data_dir).absolute() if data_dir is not None else None
        self._wanted_port = port
        self._in_process = in_process
        self._start_timeout_s = start_timeout_s
        # From the first start to close.
        self._home: Path | None = None
        self._remove_home: weakref.finalize[Any, Any] | None = None
        self._ports: list[ReservedPort] = []
        self._settings: dict[str, str] = {}
        self._host: _Host
        self._ready: Ready | None = None  # while it is meant to run, else None

    # --- where it is ---

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: "127.0.0.1:<port>"."""
        return self._started.bootstrap_servers

    @property
    def http_url(self) -> str:
        """Where /metrics, /readyz and the status page are; empty if that is off."""
        port = self._started.http_port
        return "" if port is None else f"http://{HOST}:{port}"

    @property
    def data_dir(self) -> Path:
        """The directory of the logs, the first if there are several."""
        self._prepare()
        name = next(name for name in WHERE_DATA_LIES if name in self._settings)
        return Path(self._settings[name].split(",")[0])

    @property
    def pid(self) -> int:
        """The process it runs in."""
        return (self._started and self._host.pid) or os.getpid()

    @property
    def is_running(self) -> bool:
        """Tell whether it serves; False also when it has ended by itself."""
        return self._ready is not None and self._host.is_running

    @property
    def log_text(self) -> str:
        """What it has logged since its first start; nothing in process, where the program's own logging has it."""
        if self._home is None:
            return ""
        path = self._home / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # --- what happens to it ---

    def start(self) -> Self:
        """Start it and return when clients are served. Raises: BrokerFailed."""
        if self._ready is not None:
            raise BrokerFailed("the broker has been started already")
        self._prepare()
        try:
            self._ready = self._host.start(self._settings, self._start_timeout_s)
        except BrokerFailed as failure:
            raise self._explained("did not start", failure) from failure.__cause__
        for warning in self._ready.warnings:
            warnings.warn(warning, stacklevel=2)
        return self

    def stop(self) -> None:
        """Stop it as SIGTERM does; its data stays, and `start` goes on with it. Raises: BrokerFailed."""
        if self._ready is None:
            return
        self._ready = None
        try:
            self._host.stop()
        except BrokerFailed as failure:
            raise self._explained("did not end well", failure) from failure.__cause__

    def kill(self) -> None:
        """End it as a crash does, by SIGKILL; `start` then recovers. Only for one in a child process."""
        if self._ready is not None:
            self._host.kill()
            self._ready = None

    def restart(self) -> None:
        """Stop it properly if it runs, and start it again on the same data and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it and remove its temporary directory. Raises: BrokerFailed."""
        try:
            self.stop()
        finally:
            for port in self._ports:
                port.close()
            self._ports.clear()
            if self._remove_home is not None:
                self._remove_home()
            self._home = self._remove_home = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BrokerFailed as broken:
            if failure is None:
                raise
            failure.add_note(str(broken))  # what the program was doing comes first

    async def __aenter__(self) -> Self:
        """Start it beside the program's event loop."""
        return await _beside_the_loop(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, where: TracebackType | None
    ) -> None:
        await _beside_the_loop(partial(self.__exit__, kind, failure, where))

    def __repr__(self) -> str:
        state = self._ready.bootstrap_servers if self._ready is not None else "not running"
        return f"<EmbeddedBroker {state}>"

    # --- how ---

    @property
    def _started(self) -> Ready:
        if self._ready is None:
            raise BrokerFailed("the broker has not been started")
        return self._ready

    def _prepare(self) -> None:
        """Choose directory, ports and settings, before the first start and anew after a close."""
        if self._home is not None:
            return
        self._home = Path(tempfile.mkdtemp(prefix="odradek-"))
        self._remove_home = weakref.finalize(self, _remove, self._home, os.getpid())
        settings = dict(FOR_TESTS)
        if not any(name in self._config for name in WHERE_DATA_LIES):
            settings["log.dirs"] = str(self._wanted_data_dir or self._home / "data")
        if not any(name in self._config for name in WHERE_IT_LISTENS):
            settings["listeners"] = f"PLAINTEXT://{HOST}:{self._wanted_port or self._free_port()}"
        if HTTP_LISTENER not in self._config:
            settings[HTTP_LISTENER] = f"{HOST}:{self._free_port()}"
        self._settings = {**settings, **self._config}
        self._host = self._thread() if self._in_process else ChildBroker(self._home, self._home / "broker.log")

    def _free_port(self) -> int:
        self._ports.append(ReservedPort())
        return self._ports[-1].number

    def _thread(self) -> _Host:
        try:
            host: _Host = import_module("broker.embedding.thread").ThreadBroker()
        except ImportError as failure:
            raise BrokerFailed(
                f"{failure}; a broker in process needs its packages {', '.join(OURS)}, so the program must not have"
                " modules of these names; leave out in_process=True, a child process does not mind"
            ) from failure
        return host

    def _explained(self, what: str, failure: BrokerFailed) -> BrokerFailed:
        """Say what happened, why, and what the log ends with."""
        tail = "\n".join(self.log_text.splitlines()[-LOG_TAIL_LINES:])
        return BrokerFailed(f"the broker {what}: {failure}" + (f"\n--- the end of its log ---\n{tail}" if tail else ""))


async def _beside_the_loop(call: Callable[[], T]) -> T:
    """Run a blocking call in a thread. Whoever comes here has asyncio loaded, all others need not."""
    result: T = await import_module("asyncio").to_thread(call)
    return result


def _text(value: Value) -> str:
    """Spell a value as a properties file does."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _remove(home: Path, owner_pid: int) -> None:
    """Remove the temporary directory, unless this is a fork of the program that has it."""
    if os.getpid() == owner_pid:
        shutil.rmtree(home, ignore_errors=True)
