"""The image, built from docker/Dockerfile and run as uid 1000, for those who come from apache/kafka.

What does not need the image itself (variables, start failures, stops) is in tests/cases/test_dock.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from broker.cli.commands import COMMANDS
from tests.harness import image
from tests.harness.image import Container
from tests.harness.machine import is_ci
from tests.harness.ports import free_port
from tests.harness.raw import RawClient, eventually

pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(image.missing()) and not is_ci(), reason=image.missing()),
]

MIB = 1 << 20
MAX_BYTES_ABOVE_BASE = 90 * MIB
MAX_START_CPU_S = 1.0
"""Of the processor: other tests run beside this one."""

NEEDED_SCRIPTS = {
    *("kafka-topics.sh", "kafka-configs.sh", "kafka-consumer-groups.sh", "kafka-broker-api-versions.sh"),
    *("kafka-console-producer.sh", "kafka-console-consumer.sh", "kafka-get-offsets.sh", "kafka-log-dirs.sh"),
    "kafka-dump-log.sh",
}

Make = Callable[[], Container]


@pytest.fixture(scope="session")
def name() -> str:
    return image.built()


@pytest.fixture
def make(name: str, tmp_path: Path) -> Iterator[Make]:
    containers: list[Container] = []

    def one() -> Container:
        containers.append(Container(name, tmp_path))
        return containers[-1]

    yield one
    for container in containers:
        container.close()


class Settings:
    """Variables of a combined node, as they are given to apache/kafka, on ports of this test."""

    def __init__(self) -> None:
        self.port, self.http_port, self.controller_port = free_port(), free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.variables = {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": f"PLAINTEXT://:{self.port},CONTROLLER://:{self.controller_port}",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{self.bootstrap}",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{self.controller_port}",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_ODRADEK_HTTP_LISTENER": f"127.0.0.1:{self.http_port}",
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
        }


@pytest.fixture
def settings() -> Settings:
    return Settings()


def owned(path: Path, user: int = image.USER_ID) -> Path:
    """Make a directory that belongs to a user, whom every folder above lets pass."""
    path.mkdir()
    os.chown(path, user, user)
    for folder in (path, *path.parents):
        folder.chmod(folder.stat().st_mode | 0o055)
        if folder == Path("/tmp"):
            break
    return path


def test_it_is_small_and_holds_what_it_is_for(name: str, make: Make) -> None:
    base = Container(image.BASE, Path("/tmp"))
    try:
        above = image.size_bytes(make().root) - image.size_bytes(base.root)
    finally:
        base.close()
    print(f"above its base: {above / MIB:.1f} MiB")
    assert above <= MAX_BYTES_ABOVE_BASE
    described = json.loads(image.buildah("inspect", "--type", "image", name))["Docker"]["config"]
    assert described["User"] == "appuser"
    assert described["Cmd"] == ["/etc/kafka/docker/run"]
    assert not described["Entrypoint"]
    assert set(described["Volumes"]) == {"/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"}
    assert set(described["ExposedPorts"]) == {"9092/tcp", "9093/tcp", "9404/tcp"}
    assert described["Healthcheck"]["Test"] == ["CMD", "/etc/kafka/docker/healthcheck"]
    assert described["StopSignal"] == "SIGTERM"
    assert described["Labels"]["org.opencontainers.image.title"] == "odradek"


def test_nothing_in_it_is_needed_for_building_only(make: Make) -> None:
    container = make()
    assert container.run("sh", "-c", "id -u; id -un").split() == ["1000", "appuser"]
    assert "(compiled)" in container.run("odradek", "--version")
    found = container.run("sh", "-c", "command -v pip pip3 gcc cc make strip || true")
    assert found == ""
    assert list(container.root.glob("opt/odradek/lib/python3*/site-packages/setuptools")) == []
    loaded = container.run("sh", "-c", "python -v -c 'import broker.serve' 2>&1 | grep '^# code object from'")
    assert [line for line in loaded.splitlines() if not line.endswith(".pyc'")] == [], "each start would compile it"


def test_stock_clients_work_with_it_and_its_data_outlives_it(make: Make, settings: Settings, tmp_path: Path) -> None:
    data = owned(tmp_path / "data")
    volumes = {data: "/var/lib/kafka/data"}
    container = make()
    began = time.time()
    container.start(environment=settings.variables, volumes=volumes)
    container.wait_ready()
    pid = container.broker_pid()
    cpu_s, running_s = image.cpu_seconds(pid), image.running_seconds(pid)
    print(f"ready after {running_s:.2f} s, {cpu_s:.2f} s of them on a processor")
    assert cpu_s <= MAX_START_CPU_S
    assert os.stat(f"/proc/{pid}").st_uid == image.USER_ID

    environment = {name: settings.variables[name] for name in ("KAFKA_ODRADEK_HTTP_LISTENER",)}
    assert container.run("/etc/kafka/docker/healthcheck", environment=environment) == "ready\n"
    use_kafka_python(settings.bootstrap)
    use_confluent_kafka(settings.bootstrap)
    listed = subprocess.run(["kcat", "-b", settings.bootstrap, "-L"], capture_output=True, text=True, check=True)
    assert 'topic "python"' in listed.stdout
    with RawClient(("127.0.0.1", settings.controller_port)) as client:
        assert client.request("describe_cluster", 1, endpoint_type=2).cluster_id == settings.variables["CLUSTER_ID"]

    assert container.stop(within_s=10) == 0
    assert image.changed_files(container.root, since=began) == [], "the root file system may be read-only"
    assert (data / ".kafka_cleanshutdown").exists()
    again = make()
    again.start(environment=settings.variables, volumes=volumes)
    again.wait_ready()
    with RawClient(("127.0.0.1", settings.port)) as client:
        assert (client.end_offset("python"), client.end_offset("confluent")) == (20, 20)


def use_kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(20):
        producer.send("python", b"%d" % number)
    producer.flush(10)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("python", 0)])
    read: list[bytes] = []
    eventually(
        lambda: read.extend(one.value for rows in consumer.poll(500).values() for one in rows) or len(read) == 20
    )
    consumer.close()
    assert read == [b"%d" % number for number in range(20)]


def use_confluent_kafka(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce("confluent", b"%d" % number)
    assert producer.flush(10) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["confluent"])
    read = [message.value() for message in consumer.consume(20, timeout=30)]
    consumer.close()
    assert read == [b"%d" % number for number in range(20)]


def test_kafkas_scripts_are_there_and_work(make: Make, settings: Settings) -> None:
    container = make()
    container.start(environment=settings.variables)
    container.wait_ready()
    scripts = {command.script for command in COMMANDS.values() if command.script}
    present = set(container.run("ls", "/opt/kafka/bin").split())
    assert scripts <= present and {script.removesuffix(".sh") for script in scripts} <= present
    assert present >= NEEDED_SCRIPTS
    server = ("--bootstrap-server", settings.bootstrap)
    topic = (*server, "--topic", "t")
    container.run("kafka-topics.sh", "--create", *topic, "--partitions", "2")
    assert "PartitionCount: 2" in container.run("/opt/kafka/bin/kafka-topics.sh", "--describe", *topic)
    container.run("kafka-console-producer.sh", *topic, stdin="one\ntwo\n")
    from_start = ("--from-beginning", "--max-messages", "2", "--group", "g")
    assert sorted(container.run("kafka-console-consumer.sh", *topic, *from_start).split()) == ["one", "two"]
    assert container.run("kafka-consumer-groups.sh", *server, "--list").split() == ["g"]
    offsets = container.run("kafka-get-offsets.sh", *topic).split()
    assert sum(int(line.split(":")[2]) for line in offsets) == 2, offsets
    assert "Produce(0)" in container.run("kafka-broker-api-versions.sh", *server)
    assert "/var/lib/kafka/data" in container.run("kafka-log-dirs.sh", *server, "--describe")
    (segment,) = container.run("sh", "-c", "ls /var/lib/kafka/data/__cluster_metadata-0/*0.log").split()
    assert "baseOffset: 0" in container.run("kafka-dump-log.sh", "--files", segment)
    described = ("--describe", "--entity-type", "topics", "--entity-name", "t", "--all")
    assert "retention.ms=604800000" in container.run("kafka-configs.sh", *server, *described)
    assert settings.variables["CLUSTER_ID"] in container.run("/opt/kafka/bin/kafka-cluster.sh", "cluster-id", *server)
    assert len(container.run("kafka-storage", "random-uuid").strip()) == 22


def test_a_file_stands_below_variables(make: Make, settings: Settings, tmp_path: Path) -> None:
    mounted = owned(tmp_path / "config")
    (mounted / "server.properties").write_text("num.partitions=2\nbroker.rack=of-the-file\n", encoding="utf-8")
    container = make()
    container.start(
        environment={**settings.variables, "KAFKA_NUM_PARTITIONS": "3"}, volumes={mounted: "/mnt/shared/config"}
    )
    container.wait_ready()
    with RawClient(("127.0.0.1", settings.port)) as client:
        topics = [{"name": "t", "num_partitions": -1, "replication_factor": 1}]
        client.request("create_topics", 7, topics=topics, timeout_ms=15_000)
        client.wait_for_topic("t", 3)
        assert client.metadata([]).brokers[0].rack == "of-the-file"


@pytest.mark.parametrize("run", ["/etc/kafka/docker/run", "/etc/confluent/docker/run"])
def test_a_script_that_comes_later_can_start_it(make: Make, settings: Settings, tmp_path: Path, run: str) -> None:
    """The way of Testcontainers: the address to advertise is known when the container runs."""
    shared = owned(tmp_path / "shared")
    container = make()
    waiting = "while [ ! -f /tmp/shared/start.sh ]; do sleep 0.05; done; /tmp/shared/start.sh"
    advertised = settings.variables.pop("KAFKA_ADVERTISED_LISTENERS")
    container.start("sh", "-c", waiting, environment=settings.variables, volumes={shared: "/tmp/shared"})
    script = shared / "script"
    script.write_text(f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={advertised}\n{run}\n", encoding="utf-8")
    script.chmod(0o755)
    script.rename(shared / "start.sh")
    container.wait_ready()
    assert "Transitioning from RECOVERY to RUNNING" in container.log_text()
    with RawClient(("127.0.0.1", settings.port)) as client:
        assert client.metadata([]).brokers[0].port == settings.port


def test_a_volume_of_another_user_is_named(make: Make, settings: Settings, tmp_path: Path) -> None:
    data = owned(tmp_path / "data", user=0)
    container = make()
    container.start(environment=settings.variables, volumes={data: "/var/lib/kafka/data"})
    assert container.wait() != 0
    line = next(line for line in container.log_text().splitlines() if line.startswith("odradek:"))
    assert "cannot use log directory /var/lib/kafka/data: Permission denied" in line
    assert "runs as user 1000" in line
