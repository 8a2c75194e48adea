"""Moves and descriptions while one of three directories is away, as by Apache Kafka.

What clients see of its partitions is compared in test_side_by_side_lost_dirs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.log_dirs import KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE, create_in, describe, move
from tests.harness.pair import Pair, described_disks
from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

pytestmark = pytest.mark.jvm

LONG = "n" * 240
NO_LEADER = -1
QUICKLY = {
    "log.retention.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


def of_partition(client: RawClient, partition: int) -> Struct:
    [row] = [row for row in client.topic("t").partitions if row.partition_index == partition]
    return row


def _prepare(broker: BrokerProcess) -> None:
    """Put a partition with a record on each disk."""
    with RawClient((broker.host, broker.port)) as client:
        create_in(client, "t", *broker.log_directories)
        for partition in range(3):
            client.append("t", batches.simple("v"), partition)


def _wait_until_away(broker: BrokerProcess, remove: bool) -> None:
    disk = broker.log_directories[2]
    with RawClient((broker.host, broker.port)) as client:

        def is_away() -> bool:
            if remove:
                shutil.rmtree(disk, ignore_errors=True)
            client.produce("t", batches.simple("?"), 2)
            failed = describe(client)[str(disk)].error_code == KAFKA_STORAGE_ERROR
            return failed and of_partition(client, 2).leader_id == NO_LEADER

        eventually(is_away, what="the disk's partitions have no leader")
        eventually(lambda: client.list_offset("t", -1).error_code == 0)


@pytest.fixture(scope="module", params=["at the start", "while it is served"])
def two_of_three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give both brokers with the third disk away."""
    both = Pair(tmp_path_factory.mktemp("disks"), disks=3, properties=QUICKLY)
    try:
        for broker in both.brokers:
            _prepare(broker)
            if request.param == "at the start":
                broker.stop()
                disk = broker.log_directories[2]
                disk.rename(disk.with_suffix(".away"))
                disk.write_bytes(b"not mounted")
                broker.start()
            _wait_until_away(broker, remove=request.param != "at the start")
        yield both
    finally:
        both.ours.close()
        both.ours.log_path.write_text("")  # its errors were wanted
        both.close()


@pytest.mark.parametrize("version", [1, 4, 5])
def test_the_directory_is_described_with_its_error(two_of_three: Pair, version: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        topics = [{"topic": "t", "partitions": [0, 1, 2]}]
        return described_disks(client.request("describe_log_dirs", version, topics=topics))

    [*_, away] = two_of_three.same(run)["results"]
    assert (away["error"], away["topics"]) == (KAFKA_STORAGE_ERROR, [])


def test_what_is_answered_to_moves(two_of_three: Pair, unique: str, request: pytest.FixtureRequest) -> None:
    at = request.node.callspec.params["two_of_three"]

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        a, b, away = broker.log_directories
        from_away = [move(client, path, "t", 2) for path in (a, b)]
        if at == "at the start":
            # There the reference learns first of the partition or of the failure, as it happens.
            from_away = [REPLICA_NOT_AVAILABLE if code == KAFKA_STORAGE_ERROR else code for code in from_away]
        shown = {
            "to the failed directory": [move(client, away, "t", partition) for partition in range(3)],
            "from the failed directory": from_away,
            "while a directory is away": [move(client, b, "t", 0), move(client, a, "t", 1)],
            "to where it is": [move(client, a, "t", 0), move(client, b, "t", 1)],
            "to nowhere": [move(client, "/nowhere", "t", partition) for partition in range(3)],
            "of an unknown topic": [move(client, path, f"{unique}-unknown") for path in (a, away, "/nowhere")],
            "of a long name": [move(client, path, LONG) for path in (a, away, "/nowhere")],
        }
        shown["placed"] = sorted(Path(path).name for path, result in describe(client).items() if result.error_code)
        return shown

    two_of_three.same(run)


def test_new_topics_are_placed_elsewhere(two_of_three: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, 4)
        for partition in range(4):
            client.append(unique, batches.simple("v"), partition)
        return {
            Path(path).name: sum(len(topic.partitions) for topic in result.topics)
            for path, result in describe(client, {unique: range(4)}).items()
        }

    two_of_three.same(run)
