"""Moves between log directories by the Python clients that can ask for them: kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import LogDirNotFoundError, NoError

from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.log_dirs import create_in, log_dirs, new_directories
from tests.harness.raw import RawClient, eventually


@pytest.fixture
def two_disks(broker_factory: BrokerFactory, tmp_path: Path) -> BrokerProcess:
    return broker_factory(log_dirs(*new_directories(tmp_path, 2)))


@pytest.fixture
def admin(two_disks: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=two_disks.bootstrap)
    yield client
    client.close()


def listed(admin: KafkaAdminClient, topic: str) -> dict[str, list[tuple[int, bool]]]:
    """Give the partitions of a topic that each directory lists, and whether as future logs."""
    [node] = admin.describe_log_dirs()
    assert node["broker"] == 1
    return {
        entry["log_dir"]: [
            (row["partition_index"], row["is_future_key"])
            for one in entry["topics"]
            if one["name"] == topic
            for row in one["partitions"]
        ]
        for entry in node["log_dirs"]
    }


def test_kafka_python_describes_directories_and_moves_a_partition(
    two_disks: BrokerProcess, admin: KafkaAdminClient
) -> None:
    a, b = map(str, two_disks.log_directories)
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", Path(a))
    producer = KafkaProducer(bootstrap_servers=two_disks.bootstrap)
    for number in range(100):
        producer.send("t", b"%d" % number)
    producer.flush()
    assert listed(admin, "t") == {a: [(0, False)], b: []}
    [code] = admin.alter_replica_log_dirs({("t", 0, 1): b}).values()
    assert code is NoError
    eventually(lambda: listed(admin, "t") == {a: [], b: [(0, False)]}, what="the partition is in B")
    producer.send("t", b"100")
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=two_disks.bootstrap, consumer_timeout_ms=20_000)
    consumer.assign([TopicPartition("t", 0)])
    consumer.seek_to_beginning()
    assert [int(next(consumer).value) for _ in range(101)] == list(range(101))
    consumer.close()


def test_kafka_python_is_told_what_is_wrong(two_disks: BrokerProcess, admin: KafkaAdminClient) -> None:
    a, b = two_disks.log_directories
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", a)
    answers = admin.alter_replica_log_dirs({("t", 0, 1): "/nowhere", ("unknown", 0, 1): str(b)})
    found = {of.topic: code for of, code in answers.items()}
    assert found["t"] is LogDirNotFoundError
    assert found["unknown"].errno == 3


def test_kafka_python_reassigns_to_where_the_replica_is_and_lists_nothing(
    two_disks: BrokerProcess, admin: KafkaAdminClient
) -> None:
    with RawClient((two_disks.host, two_disks.port)) as client:
        create_in(client, "t", two_disks.log_directories[0])
    assert admin.alter_partition_reassignments({TopicPartition("t", 0): [1]}) == {TopicPartition("t", 0): None}
    assert admin.list_partition_reassignments() == {}
