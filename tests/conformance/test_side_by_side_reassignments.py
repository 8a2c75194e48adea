"""AlterPartitionReassignments and ListPartitionReassignments of a single node answer as Apache Kafka's do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair
from tests.harness.raw import RawClient
from tests.harness.wire import Struct

pytestmark = pytest.mark.jvm


def _answer(answer: Struct) -> Any:
    rows = [
        (topic.name, row.partition_index, row.error_code, row.error_message)
        for topic in answer.responses
        for row in topic.partitions
    ]
    return answer.error_code, answer.error_message, rows


def _listed(answer: Struct) -> Any:
    rows = [
        (topic.name, row.partition_index, row.replicas, row.adding_replicas, row.removing_replicas)
        for topic in answer.topics
        for row in topic.partitions
    ]
    return answer.error_code, answer.error_message, rows


@pytest.mark.parametrize("version", [0, 1])
def test_reassignments(pair: Pair, unique: str, version: int) -> None:
    wanted: dict[str, tuple[str, int, list[int] | None]] = {
        "as it is": (unique, 0, [1]),
        "to another broker": (unique, 0, [2]),
        "to one more": (unique, 0, [1, 2]),
        "to nobody": (unique, 0, []),
        "twice the same": (unique, 0, [1, 1]),
        "a negative broker": (unique, 0, [-1]),
        "cancel what is not moving": (unique, 0, None),
        "unknown partition": (unique, 7, [1]),
        "cancel of an unknown partition": (unique, 7, None),
        "unknown topic": (f"{unique}-unknown", 0, [1]),
        "cancel of an unknown topic": (f"{unique}-unknown", 0, None),
        "empty name": ("", 0, [1]),
    }

    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, 2)
        shown: dict[str, Any] = {}
        for name, (topic, partition, replicas) in wanted.items():
            row = {"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}
            shown[name] = _answer(
                client.request("alter_partition_reassignments", version, topics=[row], timeout_ms=15000)
            )
        rows = [
            {"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}
            for topic, partition, replicas in wanted.values()
        ]
        several = client.request("alter_partition_reassignments", version, topics=[rows[0], rows[9]], timeout_ms=15000)
        shown["several"] = _answer(several)
        nothing = client.request("alter_partition_reassignments", version, topics=[], timeout_ms=15000)
        shown["nothing"] = _answer(nothing)
        shown["replicas"] = [row.replica_nodes for row in client.topic(unique).partitions]
        return shown

    pair.same(run)


def test_the_list_of_reassignments_is_empty(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        client.create_topic(unique, 2)
        asked: dict[str, Any] = {
            "all": None,
            "none": [],
            "one": [{"name": unique, "partition_indexes": [0, 1]}],
            "unknown partition": [{"name": unique, "partition_indexes": [7]}],
            "unknown topic": [{"name": f"{unique}-unknown", "partition_indexes": [0]}],
            "no partition": [{"name": unique, "partition_indexes": []}],
        }
        return {
            name: _listed(client.request("list_partition_reassignments", 0, topics=topics, timeout_ms=15000))
            for name, topics in asked.items()
        }

    pair.same(run)
