"""Apache Kafka's VerifiableProducer and VerifiableConsumer: what was acknowledged is consumed once, in order."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.samples import PARTITIONS
from tests.harness import java
from tests.harness.raw import eventually

pytestmark = pytest.mark.jvm

TIMEOUT_S = 60


class Verifiable:
    """One of the two tools running in the background; it prints one JSON event a line."""

    def __init__(self, name: str, output: Path, *arguments: str) -> None:
        self._output = output
        with output.open("wb") as sink:
            self.process = subprocess.Popen(
                java.command_line(java.MAIN_CLASSES[name], *arguments, jvm_options=(*java.TOOL_OPTIONS, *java.QUIET)),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the complete events of one kind so far."""
        lines = self._output.read_text(encoding="utf-8").split("\n")[:-1]
        return [event for line in lines if line.startswith("{") and (event := json.loads(line))["name"] == name]

    def stop(self) -> None:
        """Ask it to leave, as an operator would."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)


Start = Callable[..., Verifiable]


@pytest.fixture
def start(tmp_path: Path, bootstrap: str) -> Iterator[Start]:
    running: list[Verifiable] = []

    def start(name: str, *arguments: str) -> Verifiable:
        output = tmp_path / f"{name}-{len(running)}.log"
        running.append(Verifiable(name, output, "--bootstrap-server", bootstrap, *arguments))
        return running[-1]

    yield start
    for tool in running:
        tool.process.kill()
        tool.process.wait()


@pytest.mark.parametrize("protocol", ["CLASSIC", "CONSUMER"])
def test_a_group_that_gains_and_loses_a_member_consumes_each_acknowledged_record_once(
    start: Start, four_partitions: str, protocol: str
) -> None:
    group = f"group-{four_partitions}"

    def consumer() -> Verifiable:
        wanted = ("--topic", four_partitions, "--group-id", group, "--group-protocol", protocol)
        return start("kafka-verifiable-consumer", *wanted, "--verbose")

    stays = consumer()
    eventually(lambda: stays.events("partitions_assigned"), within_s=TIMEOUT_S)
    # It goes on until it is stopped: how long the second consumer takes to start is nobody's to know.
    producer = start("kafka-verifiable-producer", *("--topic", four_partitions, "--throughput", "2500"))
    leaves = consumer()
    eventually(lambda: len(leaves.events("record_data")) > 100, within_s=TIMEOUT_S)
    leaves.stop()
    sent = len(producer.events("producer_send_success"))
    eventually(lambda: len(producer.events("producer_send_success")) > sent + 1000, within_s=TIMEOUT_S)
    # Chance takes it from one partition to another; where batches are large it may be late in taking the last.
    eventually(lambda: {one["partition"] for one in producer.events("producer_send_success")} == PARTITIONS)
    producer.stop()
    acknowledged = producer.events("producer_send_success")
    count = len(acknowledged)

    def consumed() -> list[dict[str, Any]]:
        return stays.events("record_data") + leaves.events("record_data")

    eventually(lambda: len(consumed()) >= count, within_s=TIMEOUT_S, every_s=0.2)
    stays.stop()

    assert sorted(int(event["value"]) for event in acknowledged) == list(range(count))
    assert Counter(int(event["value"]) for event in consumed()) == Counter(range(count))
    places = {(event["partition"], event["offset"]): event["value"] for event in acknowledged}
    assert {(event["partition"], event["offset"]): event["value"] for event in consumed()} == places
    assert {partition for partition, _ in places} == PARTITIONS
    for consumer_events in (stays.events("record_data"), leaves.events("record_data")):
        for partition in PARTITIONS:
            offsets = [event["offset"] for event in consumer_events if event["partition"] == partition]
            assert offsets == sorted(offsets)
