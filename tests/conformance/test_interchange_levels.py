"""A log directory keeps the metadata.version it was formatted at, and goes from Apache Kafka to us and back at it.

Whoever has it writes the records that belong to the level. From 4.3-IV0 on a registration tells which log directories
are cordoned, so what one broker cordons the other's tools see in the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import batches, tool_host
from tests.harness.admin import BROKER, DELETE, SET, change_configs, described
from tests.harness.broker import BrokerProcess, KafkaProcess, TakeOver
from tests.harness.log_dirs import describe, places, wait_for_leaders
from tests.harness.offsets import commit, committed
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
CORDONED = "cordoned.log.dirs"


class Kafka42(KafkaProcess):
    """A node whose directory was formatted as Apache Kafka 4.2 formats it."""

    release_version = "4.2-IV1"


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient((broker.host, broker.port))


def finalized_level(client: RawClient) -> int:
    answer = client.request("api_versions", 4, client_software_name="test", client_software_version="1")
    found = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return int(found["metadata.version"])


def seen(client: RawClient) -> dict[str, Any]:
    """Show what must be the same whoever serves it."""
    return {
        "data": {topic: client.fetch_all(topic) for topic in ("theirs", "ours")},
        "config": described(client, "theirs", "retention.ms", "segment.bytes"),
        "group": committed(client, "group", "theirs"),
    }


def cordon(client: RawClient, *paths: Path) -> None:
    value = ",".join(map(str, paths))
    change = (CORDONED, SET, value) if value else (CORDONED, DELETE, None)
    assert change_configs(client, "1", [change], kind=BROKER).error_code == 0
    eventually(lambda: cordoned(client) == set(map(str, paths)))


def cordoned(client: RawClient) -> set[str]:
    return {path for path, one in describe(client, version=5).items() if one.is_cordoned}


def directory_id(path: Path) -> str:
    lines = (path / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]


def told(broker: BrokerProcess) -> Iterator[tuple[str, int, list[str] | None]]:
    """Yield type, version and cordoned directories of what the metadata log says of brokers, read by Kafka's tool."""
    log = broker.log_directories[0] / "__cluster_metadata-0" / "00000000000000000000.log"
    for line in tool_host.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log)).splitlines():
        _, found, payload = line.partition("payload: ")
        record = json.loads(payload) if found else {"type": ""}
        if record["type"] in ("REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"):
            yield record["type"].split("_")[-2], record["version"], record["data"].get("cordonedLogDirs")


@pytest.mark.parametrize(
    ("kafka", "level", "versions"),
    [(KafkaProcess, 30, {"BROKER": 4, "CHANGE": 3}), (Kafka42, 29, {"BROKER": 3, "CHANGE": 2})],
    ids=["4.3-IV0", "4.2-IV1"],
)
def test_a_directory_goes_to_us_and_back_at_its_level(
    take_over: TakeOver, kafka: type[KafkaProcess], level: int, versions: dict[str, int]
) -> None:
    broker = take_over(kafka)
    a, b = broker.log_directories
    with connect(broker) as client:
        client.create_topic("theirs", retention_ms="-1", segment_bytes="2000000")
        client.append("theirs", batches.simple("by Kafka"))
        commit(client, "group", "theirs", 1, metadata="m")
        assert finalized_level(client) == level
        if level >= 30:
            cordon(client, a)
    broker.stop()
    theirs = list(told(broker))

    broker = take_over(BrokerProcess)
    wait_for_leaders(broker, "theirs")
    with connect(broker) as client:
        assert finalized_level(client) == level
        assert cordoned(client) == ({str(a)} if level >= 30 else set())
        cordon(client, a)
        client.create_topic("ours")
        assert list(places(client, "ours")) == [str(b)]
        client.append("ours", batches.simple("by us"))
        client.append("theirs", batches.simple("by us too"))
        cordon(client, b)
        ours = seen(client)
    broker.stop()
    all_told = list(told(broker))
    by_us = all_told[len(theirs) :]
    assert {(kind, version) for kind, version, _ in by_us} == set(versions.items())
    if level >= 30:
        ids = [None if named is None else [directory_id(a)] == named for _, _, named in by_us]
        assert ids == [None, None, True, False], "registered, unfenced, what is cordoned, what was cordoned then"
        assert by_us[-1][2] == [directory_id(b)]

    broker = take_over(kafka)
    wait_for_leaders(broker, "theirs")
    with connect(broker) as client:
        assert finalized_level(client) == level
        assert seen(client) == ours
        if level >= 30:
            assert cordoned(client) == {str(b)}
    broker.stop()


def test_what_we_format_an_older_kafka_can_take_over(take_over: TakeOver) -> None:
    broker = take_over(BrokerProcess)
    with connect(broker) as client:
        client.create_topic("theirs", retention_ms="-1")
        client.create_topic("ours")
        client.append("ours", batches.simple("by us"))
        commit(client, "group", "theirs", 0)
        cordon(client, broker.log_directories[0])
        assert finalized_level(client) == 29
        ours = seen(client)
    broker.stop()
    assert {(kind, version) for kind, version, _ in told(broker)} == {("BROKER", 3), ("CHANGE", 2)}
    broker = take_over(KafkaProcess)
    wait_for_leaders(broker, "ours")
    with connect(broker) as client:
        assert finalized_level(client) == 29
        assert seen(client) == ours
