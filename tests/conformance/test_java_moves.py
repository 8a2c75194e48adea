"""Apache Kafka's LogDirsCommand and ReassignPartitionsCommand move partitions between directories under load."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import batches, java, tool_host
from tests.harness.admin import BROKER, DEFAULT_SOURCE, described
from tests.harness.batches import Record
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.log_dirs import (
    THROTTLE,
    create_in,
    folders,
    future_in,
    log_dirs,
    new_directories,
    places,
    wait_until_only_in,
)
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

MIB = 1 << 20
MOVED_MIB = int(os.environ.get("ODRADEK_TEST_MOVED_MIB", "128"))
# The reference lets the first ten seconds' worth through at once.
RATE = MOVED_MIB * MIB // 13
UNLIMITED = (str(2**63 - 1), DEFAULT_SOURCE)
SENT = 20_000
SENT_PER_SECOND = 1_000
PATIENCE_S = 120.0


@pytest.fixture
def two_disks(broker_factory: BrokerFactory, tmp_path: Path) -> BrokerProcess:
    properties = {"log.segment.delete.delay.ms": "500", "log.retention.ms": "-1", "log.initial.task.delay.ms": "0"}
    return broker_factory({**log_dirs(*new_directories(tmp_path, 2)), **properties})


def fill(client: RawClient, topic: str, mebibytes: int) -> int:
    """Append batches of a MiB; return how many records these are."""
    batch = batches.build([Record(b"before" + bytes(1000)) for _ in range(1024)])
    for _ in range(mebibytes):
        client.append(topic, batch)
    return mebibytes * 1024


class Reassignment:
    """A plan in a file, and the tool's verbs on it."""

    def __init__(self, broker: BrokerProcess, place: Path, log_dir: Path, *topics: str) -> None:
        self._bootstrap = broker.bootstrap
        self._count = len(topics)
        self._path = place / f"{log_dir.name}.json"
        rows = [{"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(log_dir)]} for topic in topics]
        self._path.write_text(json.dumps({"version": 1, "partitions": rows}))

    def run(self, verb: str, *arguments: str) -> str:
        return tool_host.run(
            "kafka-reassign-partitions",
            *("--bootstrap-server", self._bootstrap, verb, "--reassignment-json-file", str(self._path), *arguments),
        )

    def execute(self, rate: int) -> str:
        printed = self.run("--execute", "--replica-alter-log-dirs-throttle", str(rate))
        assert printed.count("Successfully started moving log directory to ") == self._count, printed
        return printed


def listed(broker: BrokerProcess, *arguments: str) -> dict[str, dict[str, Any]]:
    """Give what LogDirsCommand prints of each directory."""
    printed = tool_host.run("kafka-log-dirs", "--bootstrap-server", broker.bootstrap, "--describe", *arguments)
    [line] = [line for line in printed.splitlines() if line.startswith("{")]
    [node] = json.loads(line)["brokers"]
    assert node["broker"] == 1
    return {entry["logDir"]: entry for entry in node["logDirs"]}


def test_log_dirs_command_lists_sizes_lags_and_room(two_disks: BrokerProcess) -> None:
    a, b = two_disks.log_directories
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", a)
        fill(client, "t", 2)
        found = listed(two_disks, "--topic-list", "t,unknown", "--broker-list", "1")
        [row] = found[str(a)]["partitions"]
        assert (row["partition"], row["size"], row["offsetLag"], row["isFuture"]) == (
            "t-0",
            places(client, "t")[str(a)].size,
            0,
            False,
        )
    assert found[str(b)]["partitions"] == []
    assert {entry["error"] for entry in found.values()} == {None}
    assert {entry.get("isCordoned", False) for entry in found.values()} == {False}
    assert "t-0" in [row["partition"] for row in listed(two_disks)[str(a)]["partitions"]]


class Verifier:
    """ProducerPerformance, whose records count up, and what it has been told."""

    def __init__(self, broker: BrokerProcess, topic: str, output: Path) -> None:
        self._output = output
        with output.open("wb") as sink:
            self.process = subprocess.Popen(
                java.command_line(
                    java.MAIN_CLASSES["kafka-producer-perf-test"],
                    *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--payload-monotonic"),
                    *("--num-records", str(SENT), "--throughput", str(SENT_PER_SECOND)),
                    *("--command-property", "acks=all"),
                    jvm_options=(*java.TOOL_OPTIONS, *java.QUIET),
                ),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> str:
        code = self.process.wait(PATIENCE_S)
        printed = self._output.read_text()
        assert code == 0, printed
        assert f"{SENT} records sent" in printed, printed
        assert "Exception" not in printed, printed
        return printed


def test_a_partition_moves_while_it_is_written_and_read(two_disks: BrokerProcess, tmp_path: Path) -> None:
    a, b = two_disks.log_directories
    plan = Reassignment(two_disks, tmp_path, b, "t")
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", a)
        before = fill(client, "t", MOVED_MIB)
        producer = Verifier(two_disks, "t", tmp_path / "producer.log")
        try:
            plan.execute(RATE)  # while the producer's JVM starts: it has to outlast the move, however slow the tool is
            eventually(lambda: client.end_offset("t") > before, what="the producer sends", within_s=PATIENCE_S)
            assert described(client, "1", THROTTLE, kind=BROKER)[THROTTLE][0] == str(RATE)
            assert eventually(lambda: future_in(client, b, "t")).is_future
            values: list[bytes | None] = []
            offset = before

            def read_on() -> None:
                """Read what has come, as a consumer that keeps up does: no gap, nothing twice."""
                nonlocal offset
                fetched = client.fetch("t", offset, max_wait_ms=100)
                assert fetched.error_code == 0
                for batch in batches.parse(fetched.records):
                    assert batch.crc_is_right
                    assert batch.base_offset == offset
                    values.extend(record.value for record in batch.records())
                    offset = batch.next_offset

            def is_over() -> bool:
                read_on()
                return list(places(client, "t")) == [str(b)]

            eventually(is_over, within_s=PATIENCE_S, what="the move ends")
            assert producer.process.poll() is None, "the producer went on all the time"
            verified = plan.run("--verify")
            assert "Reassignment of replica t-0-1 completed successfully." in verified, verified
            assert described(client, "1", kind=BROKER).get(THROTTLE, UNLIMITED)[0] == UNLIMITED[0]
            producer.finish()
            while len(values) < SENT:
                read_on()
        finally:
            producer.process.kill()
            producer.process.wait()
        assert values == [b"%d" % number for number in range(SENT)]
        eventually(lambda: not folders(a, "t"))
    [row] = listed(two_disks, "--topic-list", "t")[str(b)]["partitions"]
    assert (row["partition"], row["isFuture"], row["offsetLag"]) == ("t-0", False, 0)
    assert listed(two_disks, "--topic-list", "t")[str(a)]["partitions"] == []


def test_moves_are_verified_while_they_run_and_cancelled(two_disks: BrokerProcess, tmp_path: Path) -> None:
    a, b = two_disks.log_directories
    plan = Reassignment(two_disks, tmp_path, b, "t", "u")
    with RawClient((two_disks.host, two_disks.port)) as client:
        for topic in ("t", "u"):
            create_in(client, topic, a)
            fill(client, topic, 4)
        plan.execute(MIB // 8)
        assert eventually(lambda: future_in(client, b, "t") or future_in(client, b, "u"))
        found = listed(two_disks, "--topic-list", "t,u")
        assert all(row["isFuture"] for row in found[str(b)]["partitions"])
        assert any(row["offsetLag"] > 0 for row in found[str(b)]["partitions"])
        verified = plan.run("--verify")
        assert "is still in progress" in verified, verified
        cancelled = plan.run("--cancel")
        assert cancelled.count(f"Successfully started moving log directory to {a} for replica ") == 2, cancelled
        for topic in ("t", "u"):
            wait_until_only_in(client, a, topic)
        eventually(lambda: not folders(b, "t") and not folders(b, "u"))


def test_a_plan_is_generated(two_disks: BrokerProcess, tmp_path: Path) -> None:
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", *two_disks.log_directories)
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    printed = tool_host.run(
        "kafka-reassign-partitions",
        *("--bootstrap-server", two_disks.bootstrap, "--generate", "--broker-list", "1"),
        *("--topics-to-move-json-file", str(wanted)),
    )
    current, proposed = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    rows = sorted((row["topic"], row["partition"], row["replicas"], row["log_dirs"]) for row in proposed["partitions"])
    assert rows == [("t", number, [1], ["any"]) for number in range(2)]
    assert len(current["partitions"]) == 2


def test_a_plan_with_an_unknown_directory_is_refused(two_disks: BrokerProcess, tmp_path: Path) -> None:
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", two_disks.log_directories[0])
        plan = Reassignment(two_disks, tmp_path, tmp_path / "nowhere", "t")
        with pytest.raises(AssertionError, match=r"LogDirNotFoundException"):
            plan.run("--execute")
        assert list(places(client, "t")) == [str(two_disks.log_directories[0])]
