"""A Kafka Streams application that processes exactly once, through kills of itself and of the broker."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import batches, java
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import ToolHost, Tools
from tests.harness.transacting import committed, wait_until_decided

pytestmark = pytest.mark.jvm

SOURCE = Path(__file__).resolve().parents[1] / "jvm" / "CountingStreams.java"
COUNT = 6_000
PARTITIONS = 2
TIMEOUT_S = 90


class Application:
    """One process of the application."""

    def __init__(self, output: Path, *arguments: str) -> None:
        self._output = output
        with output.open("wb") as sink:
            self.process = subprocess.Popen(
                java.program(SOURCE, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def text(self) -> str:
        return self._output.read_text(encoding="utf-8")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[BrokerProcess, str], Application]]:
    """Give a function that starts the application; each has its state where the one before had it."""
    running: list[Application] = []

    def start(broker: BrokerProcess, name: str) -> Application:
        arguments = (broker.bootstrap, name, f"{name}-in", f"{name}-out", str(tmp_path / "state"))
        running.append(Application(tmp_path / f"streams-{len(running)}.log", *arguments))
        return running[-1]

    yield start
    for application in running:
        application.process.kill()
        application.process.wait()


def test_sums_are_exact_whoever_is_killed(
    broker_factory: BrokerFactory,
    start: Callable[[BrokerProcess, str], Application],
    tool_host: ToolHost,
    unique: str,
) -> None:
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(f"{unique}-in", PARTITIONS)
        client.create_topic(f"{unique}-out", PARTITIONS)

    def feed(numbers: range) -> None:
        with RawClient((broker.host, broker.port)) as client:
            for partition in range(PARTITIONS):
                client.append(f"{unique}-in", batches.simple(*map(str, numbers[partition::PARTITIONS])), partition)

    def results() -> list[tuple[str, str]]:
        with RawClient((broker.host, broker.port)) as client:
            return [
                (str(record.key, "ascii"), str(record.value, "ascii"))
                for partition in range(PARTITIONS)
                for record in committed(client, f"{unique}-out", partition)
            ]

    def counted() -> int:
        last = dict(results())
        return sum(int(value.split()[0]) for value in last.values())

    feed(range(COUNT // 2))
    first = start(broker, unique)
    eventually(lambda: counted() > COUNT // 6, within_s=TIMEOUT_S, every_s=0.2, what="the first sums")
    first.process.send_signal(signal.SIGKILL)
    second = start(broker, unique)
    feed(range(COUNT // 2, COUNT))
    eventually(lambda: counted() > COUNT // 2, within_s=TIMEOUT_S, every_s=0.2, what="sums of the second")
    broker.kill()
    broker.start()
    eventually(lambda: counted() >= COUNT, within_s=TIMEOUT_S, every_s=0.2, what="all is counted")

    tools = Tools(tool_host, broker.bootstrap)
    state = tools.run("kafka-consumer-groups", "--describe", "--group", unique, "--state")
    [row] = [line.split() for line in state.splitlines() if line.startswith(unique)]
    assert row[3:] == ["stream", "Stable", "1"]
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(TIMEOUT_S) in (0, 128 + signal.SIGTERM, -signal.SIGTERM), second.text()

    changes = results()
    expected = {str(digit): range(digit, COUNT, 10) for digit in range(10)}
    assert dict(changes) == {digit: f"{len(numbers)} {sum(numbers)}" for digit, numbers in expected.items()}
    # Each record has changed its sum once: every count from 1 on is there, and none twice.
    assert Counter((digit, int(value.split()[0])) for digit, value in changes) == Counter(
        (digit, number) for digit, numbers in expected.items() for number in range(1, len(numbers) + 1)
    )
    with RawClient((broker.host, broker.port)) as client:
        for topic in (f"{unique}-out", f"{unique}-sums-changelog", f"{unique}-digits-repartition"):
            for partition in range(PARTITIONS):
                wait_until_decided(client, topic, partition)
    changelog = tools.run("kafka-configs", "--topic", f"{unique}-sums-changelog", "--describe")
    assert "cleanup.policy=compact " in changelog
    repartition = tools.run("kafka-configs", "--topic", f"{unique}-digits-repartition", "--describe")
    assert "cleanup.policy=delete " in repartition and "retention.ms=-1 " in repartition


def test_the_protocol_of_streams_groups_is_not_offered(tools: Tools, *, is_reference: bool) -> None:
    if is_reference:
        pytest.skip("the reference offers it")
    assert "streams.version" not in tools.run("kafka-features", "describe")
    assert not re.search(r"StreamsGroup\w+\(\d+\): \d", tools.run("kafka-broker-api-versions"))
