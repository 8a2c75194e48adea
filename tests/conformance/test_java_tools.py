"""Apache Kafka's command-line tools, from the same release as our reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.harness import java
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient

pytestmark = pytest.mark.jvm

# The APIs that a broker serving these tools offers, by the name the tool prints.
NEEDED_APIS = {
    *("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "InitProducerId", "OffsetForLeaderEpoch"),
    *("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroups", "ListGroups"),
    *("OffsetCommit", "OffsetFetch", "CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords"),
    *("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"),
    *("DescribeCluster", "DescribeTopicPartitions"),
}


def tool(name: str, bootstrap: str, *arguments: str, stdin: str = "") -> str:
    return java.tool(name, "--bootstrap-server", bootstrap, *arguments, stdin=stdin)


def fill(broker: BrokerProcess, topic: str, count: int) -> None:
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(topic)
    lines = "".join(f"line {number}\n" for number in range(count))
    tool("kafka-console-producer", broker.bootstrap, "--topic", topic, stdin=lines)


def test_a_topic_is_created_described_and_deleted(bootstrap: str, unique: str) -> None:
    created = tool(
        *("kafka-topics", bootstrap, "--create", "--topic", unique, "--partitions", "3"),
        *("--config", "retention.ms=3600000"),
    )
    assert created.strip() == f"Created topic {unique}."

    head, *partitions = tool("kafka-topics", bootstrap, "--describe", "--topic", unique).splitlines()
    assert re.search(rf"Topic: {unique}\s+TopicId: [-\w]{{22}}\s+PartitionCount: 3\s+ReplicationFactor: 1\s", head), (
        head
    )
    assert "retention.ms=3600000" in head
    found = [re.search(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\d+)\s+Isr: (\d+)", line) for line in partitions]
    assert [row.groups() for row in found if row] == [(str(number), "1", "1", "1") for number in range(3)]

    tool("kafka-topics", bootstrap, "--delete", "--topic", unique)
    assert unique not in tool("kafka-topics", bootstrap, "--list").split()


def test_console_producer_and_consumer_agree_and_the_group_tool_sees_and_resets_offsets(
    shared_broker: BrokerProcess, unique: str
) -> None:
    bootstrap, group = shared_broker.bootstrap, f"group-{unique}"
    fill(shared_broker, unique, 20)
    read = tool(
        *("kafka-console-consumer", bootstrap, "--topic", unique, "--group", group),
        *("--from-beginning", "--max-messages", "15", "--timeout-ms", "20000"),
    )
    assert read.splitlines() == [f"line {number}" for number in range(15)]

    def described() -> list[str]:
        lines = tool("kafka-consumer-groups", bootstrap, "--describe", "--group", group).splitlines()
        row = next(line for line in lines if line.startswith(group))
        return row.split()[:6]

    assert described() == [group, unique, "0", "15", "20", "5"]
    assert group in tool("kafka-consumer-groups", bootstrap, "--list").split()

    reset = ("kafka-consumer-groups", bootstrap, "--reset-offsets", "--group", group, "--topic", unique)
    tool(*reset, "--to-earliest", "--execute")
    assert described() == [group, unique, "0", "0", "20", "20"]
    tool(*reset, "--shift-by", "7", "--execute")
    assert described() == [group, unique, "0", "7", "20", "13"]


def test_the_performance_tools_move_all_records(bootstrap: str, unique: str) -> None:
    sent = tool(
        *("kafka-producer-perf-test", bootstrap, "--topic", unique),
        *("--num-records", "20000", "--record-size", "200", "--throughput", "-1"),
    )
    assert "20000 records sent" in sent
    header, row = tool(
        *("kafka-consumer-perf-test", bootstrap, "--topic", unique, "--num-records", "20000", "--timeout", "20000")
    ).splitlines()[-2:]
    columns = dict(zip(header.split(", "), row.split(", "), strict=True))
    count = columns.get("data.consumed.in.nMsg") or columns["nMsg"]
    assert int(count) == 20000


def test_get_offsets_answers_for_both_ends_and_the_greatest_time(shared_broker: BrokerProcess, unique: str) -> None:
    fill(shared_broker, unique, 12)

    def offset(time: str) -> str:
        return tool("kafka-get-offsets", shared_broker.bootstrap, "--topic", unique, "--time", time).strip()

    assert offset("latest") == f"{unique}:0:12"
    assert offset("earliest") == f"{unique}:0:0"
    assert re.fullmatch(rf"{unique}:0:\d+", offset("max-timestamp"))


def test_records_are_deleted_up_to_the_offsets_of_a_file(
    shared_broker: BrokerProcess, unique: str, tmp_path: Path
) -> None:
    fill(shared_broker, unique, 12)
    wanted = tmp_path / "offsets.json"

    def delete(offset: int, partition: int = 0) -> str:
        entry = {"topic": unique, "partition": partition, "offset": offset}
        wanted.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        return tool("kafka-delete-records", shared_broker.bootstrap, "--offset-json-file", str(wanted))

    def earliest() -> str:
        return tool("kafka-get-offsets", shared_broker.bootstrap, "--topic", unique, "--time", "earliest").strip()

    assert f"partition: {unique}-0\tlow_watermark: 5" in delete(5)
    assert earliest() == f"{unique}:0:5"
    assert "low_watermark: 5" in delete(3)
    assert "OffsetOutOfRangeException" in delete(13)
    assert "low_watermark: 12" in delete(-1)
    assert earliest() == f"{unique}:0:12"


def test_every_api_the_tools_need_is_offered_and_usable(bootstrap: str) -> None:
    printed = tool("kafka-broker-api-versions", bootstrap)
    assert "UNKNOWN" not in printed
    usable = set(re.findall(r"^\s*(\w+)\(\d+\): \d+(?: to \d+)? \[usable: \d+\]", printed, re.MULTILINE))
    assert usable >= NEEDED_APIS
