"""Kafka Connect with the file connectors: standalone through restarts, distributed exactly once under kills."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness import java
from tests.harness.broker import BrokerFactory
from tests.harness.ports import free_port
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import ToolHost, Tools
from tests.harness.transacting import committed

pytestmark = pytest.mark.jvm

TIMEOUT_S = 90
CLASSES = {"standalone": "ConnectStandalone", "distributed": "ConnectDistributed"}
CONNECTORS = "org.apache.kafka.connect.file.FileStream"
COUNT = 300
SLICE = 10


class Worker:
    """One worker process."""

    def __init__(self, directory: Path, mode: str, settings: Mapping[str, str], *connectors: Mapping[str, str]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        defaults = {
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "200",
            "plugin.discovery": "service_load",
        }
        directory.mkdir()
        files = [directory / f"{number}.properties" for number in range(1 + len(connectors))]
        for path, values in zip(files, ({**defaults, **settings}, *connectors), strict=True):
            path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        main_class = f"org.apache.kafka.connect.cli.{CLASSES[mode]}"
        options = (*java.TOOL_OPTIONS, *java.QUIET)
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                java.command_line(main_class, *map(str, files), jvm_options=options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Let it commit what it has done and leave."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request to the worker's own interface; None while it cannot answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            assert self.process.poll() is None, self._log.read_text(encoding="utf-8")
            return None


StartWorker = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartWorker]:
    running: list[Worker] = []

    def start(mode: str, settings: Mapping[str, str], *connectors: Mapping[str, str]) -> Worker:
        running.append(Worker(tmp_path / f"worker-{len(running)}", mode, settings, *connectors))
        return running[-1]

    yield start
    for worker in running:
        worker.process.kill()
        worker.process.wait()


def source_of(name: str, path: Path, topic: str) -> dict[str, str]:
    connector = {"name": f"{name}-source", "connector.class": f"{CONNECTORS}SourceConnector", "tasks.max": "1"}
    return connector | {"file": str(path), "topic": topic}


def sink_of(name: str, path: Path, topic: str) -> dict[str, str]:
    connector = {"name": f"{name}-sink", "connector.class": f"{CONNECTORS}SinkConnector", "tasks.max": "1"}
    return connector | {"file": str(path), "topics": topic}


def lines(numbers: range) -> list[str]:
    return [f"line {number:04}" for number in numbers]


def append(path: Path, numbers: range) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines(numbers)))


def test_lines_go_from_file_to_file_through_restarts(
    broker_factory: BrokerFactory, start: StartWorker, tmp_path: Path, unique: str
) -> None:
    broker = broker_factory()
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    sink.touch()
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "consumer.auto.offset.reset": "earliest",
    }
    connectors = (source_of(unique, source, unique), sink_of(unique, sink, unique))

    def written() -> list[str]:
        return sink.read_text().splitlines()

    append(source, range(COUNT))
    first = start("standalone", settings, *connectors)
    eventually(lambda: len(written()) == COUNT, within_s=TIMEOUT_S, what="the first lines")
    first.stop()
    broker.kill()
    broker.start()
    append(source, range(COUNT, 2 * COUNT))
    start("standalone", settings, *connectors)
    eventually(lambda: len(written()) >= 2 * COUNT, within_s=TIMEOUT_S, what="the lines of the second worker")
    assert written() == lines(range(2 * COUNT)), "a worker that has left in peace loses and repeats nothing"
    broker.kill()
    append(source, range(2 * COUNT, 3 * COUNT))
    broker.start()
    expected = lines(range(3 * COUNT))
    eventually(lambda: set(written()) == set(expected), within_s=TIMEOUT_S, what="the lines of a broker that came back")
    # Standalone workers promise each line at least once, so what was under way may be there twice.
    assert list(dict.fromkeys(written())) == expected


def test_a_distributed_worker_brings_each_line_once_under_kills(
    broker_factory: BrokerFactory, start: StartWorker, tool_host: ToolHost, tmp_path: Path, unique: str
) -> None:
    broker = broker_factory()
    source = tmp_path / "in.txt"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": unique,
        "exactly.once.source.support": "enabled",
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "offset.storage.partitions": "3",
        **{f"{what}.storage.topic": f"{unique}-{what}" for what in ("config", "offset", "status")},
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
    }
    connector = source_of(unique, source, unique)
    name = connector.pop("name")

    def arrived() -> list[str]:
        with RawClient((broker.host, broker.port)) as client:
            return [str(record.value, "ascii") for record in committed(client, unique)]

    slices = (range(first, first + SLICE) for first in itertools.count(0, SLICE))

    def has_grown_to(count: int) -> bool:
        """Append another slice, which mostly makes another transaction, and look how far the worker has come."""
        append(source, next(slices))
        return len(arrived()) >= count

    first = start("distributed", settings)
    eventually(lambda: first.ask("PUT", f"/connectors/{name}/config", connector), within_s=TIMEOUT_S, every_s=0.2)
    eventually(lambda: has_grown_to(COUNT), within_s=TIMEOUT_S, every_s=0.05, what="some lines")
    first.process.kill()
    second = start("distributed", settings)
    done = len(arrived())
    eventually(lambda: has_grown_to(done + COUNT), within_s=TIMEOUT_S, every_s=0.05, what="more lines")
    broker.kill()
    append(source, next(slices))
    broker.start()
    last = next(slices)
    append(source, last)

    def is_complete() -> bool:
        status = second.ask("GET", f"/connectors/{name}/status")
        if status and status["tasks"] and status["tasks"][0]["state"] == "FAILED":
            second.ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
        return len(arrived()) >= last.stop

    eventually(is_complete, within_s=TIMEOUT_S, every_s=0.5, what="all lines")
    assert arrived() == lines(range(last.stop))

    tools = Tools(tool_host, broker.bootstrap)
    for what, partitions in (("config", 1), ("offset", 3), ("status", 5)):
        described = tools.run("kafka-topics", "--describe", "--topic", f"{unique}-{what}")
        assert f"PartitionCount: {partitions}\t" in described and "cleanup.policy=compact" in described
