"""A real broker process on loopback: start with given properties, wait until ready, stop, kill, start again.

`ODRADEK_TEST_BROKER=kafka` makes every test that takes its broker from here run against Apache Kafka instead, which
shows that the tests themselves expect what the reference does.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.harness import java, tool_host
from tests.harness.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_LINE = "Kafka Server started"
POLL_INTERVAL_S = 0.02

# A line of ours that a human must act on, or a traceback that nobody expected.
_TROUBLE = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b|^Traceback \(most recent call last\)", re.MULTILINE)


class BrokerFailed(Exception):
    """The process ended or stayed silent when it should have become ready; carries the end of its log."""


def reference_wanted() -> bool:
    """Tell whether the tests shall run against Apache Kafka instead of Odradek."""
    return os.environ.get("ODRADEK_TEST_BROKER", "odradek") == "kafka"


class BrokerProcess:
    """One Odradek daemon with its own directory; subclasses say how another broker is configured and launched."""

    start_timeout_s = 30.0
    stop_timeout_s = 30.0

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.directory = directory
        self.host = "127.0.0.1"
        self.port = free_port()
        self.http_port = free_port()
        self.data_directory = directory / "data"
        self.properties_path = directory / "server.properties"
        self.log_path = directory / "broker.log"
        self.arguments = arguments
        self.environment = dict(environment or {})
        # Tests may change these between a stop and the next start.
        self.properties = {**self.default_properties(), **(properties or {})}
        # The running process; None before the first start and after each stop.
        self.process: subprocess.Popen[bytes] | None = None
        # Where in the log the current process began to write.
        self._log_start = 0
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        """Return host:port of the client listener."""
        return f"{self.host}:{self.port}"

    @property
    def log_directories(self) -> list[Path]:
        """Return the entries of log.dirs."""
        return [Path(path) for path in self.properties["log.dirs"].split(",")]

    @property
    def pid(self) -> int:
        """Return the process id of the running broker."""
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    def default_properties(self) -> dict[str, str]:
        """Return what every test wants unless it says otherwise: own ports and directory, no rebalance delay.

        Retention does not begin by itself: tests choose the times of their records, and most choose the past.
        """
        return {
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_directory),
            "odradek.http.listener": f"{self.host}:{self.http_port}",
            "group.initial.rebalance.delay.ms": "0",
            "log.initial.task.delay.ms": "3600000",
        }

    def command(self) -> list[str]:
        """Return the command line of the daemon."""
        return [sys.executable, "-m", "broker", "serve", str(self.properties_path), *self.arguments]

    def prepare(self) -> None:
        """Write the properties file."""
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        self.properties_path.write_text("".join(lines), encoding="utf-8")

    def start(self, *, timeout_s: float | None = None) -> None:
        """Launch the process and return once it says that it is ready.

        Raises: BrokerFailed if it ends first or is not ready in time.
        """
        self.launch()
        self.wait_ready(timeout_s=timeout_s)

    def launch(self) -> None:
        """Launch the process without waiting for it."""
        assert self.process is None, "already running"
        self.prepare()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, *, timeout_s: float | None = None) -> None:
        """Wait for the ready line of the process launched last."""
        assert self.process is not None
        deadline = time.monotonic() + (timeout_s or self.start_timeout_s)
        while READY_LINE not in self.log_text():
            if self.process.poll() is not None:
                code, self.process = self.process.returncode, None
                raise BrokerFailed(f"ended with {code} before it was ready:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"not ready in time:\n{self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)
        with socket.create_connection((self.host, self.port), timeout=5):
            pass

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the running process."""
        assert self.process is not None, "the broker is not running"
        self.process.send_signal(number)

    def wait(self, *, timeout_s: float | None = None) -> int:
        """Wait for the process to end and return its exit code."""
        assert self.process is not None, "the broker is not running"
        code = self.process.wait(timeout_s or self.stop_timeout_s)
        self.process = None
        return code

    def stop(self, *, timeout_s: float | None = None) -> int:
        """Ask it to stop by SIGTERM and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s=timeout_s)

    def kill(self) -> None:
        """End it by SIGKILL, as a crash of the process would."""
        self.signal(signal.SIGKILL)
        self.wait()

    def pause(self) -> None:
        """Stop it by SIGSTOP: connections stay open and nothing is answered."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again after a pause."""
        self.signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop cleanly and start on the same directory and ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End whatever still runs; for the end of a test."""
        if self.process is None:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def log_text(self, *, all_runs: bool = False) -> str:
        """Return what the current or last process logged, or what all processes on this directory did."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(0 if all_runs else self._log_start)
            return log.read().decode("utf-8", "replace")

    def log_tail(self, line_count: int = 40) -> str:
        """Return the last lines of the log, for a failure message."""
        return "\n".join(self.log_text().splitlines()[-line_count:])

    def trouble(self) -> list[str]:
        """Return the lines of the whole log that report an error of ours or begin a traceback."""
        return [line for line in self.log_text(all_runs=True).splitlines() if _TROUBLE.search(line)]

    def http_get(self, path: str) -> str:
        """Return the body of a page of the metrics and health listener."""
        with urllib.request.urlopen(f"http://{self.host}:{self.http_port}{path}", timeout=10) as answer:
            body: bytes = answer.read()
        return body.decode("utf-8")

    def resident_bytes(self) -> int:
        """Return the resident set size of the running process."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None, status
        return int(found[1]) * 1024

    def __repr__(self) -> str:
        state = f"pid {self.process.pid}" if self.process is not None else "not running"
        return f"<{type(self).__name__} {self.bootstrap} {state}>"


class KafkaProcess(BrokerProcess):
    """One Apache Kafka node in combined KRaft mode, from the jars Maven resolved."""

    start_timeout_s = 90.0
    stop_timeout_s = 60.0
    options = ("-Xms256m", "-Xmx512m", *java.QUICK_OPTIONS)
    # The metadata.version of a fresh directory: what the reference formats by itself.
    release_version = "4.3-IV0"

    def default_properties(self) -> dict[str, str]:
        """Return Odradek's test properties and what a single Kafka node needs besides."""
        self.controller_port = free_port()
        properties = super().default_properties()
        del properties["odradek.http.listener"]
        return {
            **properties,
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{self.host}:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }

    def prepare(self) -> None:
        """Write the properties file and format the directories if they are fresh."""
        super().prepare()
        if not any((path / "meta.properties").exists() or path.is_file() for path in self.log_directories):
            tool_host.run(
                *("kafka-storage", "format", "--config", str(self.properties_path)),
                *("--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk", "--release-version", self.release_version),
            )

    def command(self) -> list[str]:
        """Return the command line of the JVM."""
        options = (*self.options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=info")
        return java.command_line("kafka.Kafka", str(self.properties_path), jvm_options=options)

    def trouble(self) -> list[str]:
        """Return nothing: the reference's log is not ours to judge."""
        return []


# What the fixture `broker_factory` gives: make(properties, environment=..., arguments=..., start=True).
BrokerFactory = Callable[..., BrokerProcess]

# What the fixture `take_over` gives: start a broker of a kind on the directories that all of them have in turn.
TakeOver = Callable[[type[BrokerProcess]], BrokerProcess]


def broker_class() -> type[BrokerProcess]:
    """Return the kind of broker this run tests."""
    return KafkaProcess if reference_wanted() else BrokerProcess
