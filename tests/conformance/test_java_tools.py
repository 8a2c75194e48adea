"""Apache Kafka's command-line tools, from the same release as our reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient
from tests.harness.tool_host import Tools

pytestmark = pytest.mark.jvm

# The APIs that a broker serving these tools offers, by the name the tool prints.
NEEDED_APIS = {
    *("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "InitProducerId", "OffsetForLeaderEpoch"),
    *("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroups", "ListGroups"),
    *("OffsetCommit", "OffsetFetch", "CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords"),
    *("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"),
    *("DescribeCluster", "DescribeTopicPartitions"),
}


def fill(tools: Tools, broker: BrokerProcess, topic: str, count: int) -> None:
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(topic)
    lines = "".join(f"line {number}\n" for number in range(count))
    tools.run("kafka-console-producer", "--topic", topic, stdin=lines)


def test_a_topic_is_created_described_and_deleted(tools: Tools, unique: str) -> None:
    created = tools.run(
        *("kafka-topics", "--create", "--topic", unique, "--partitions", "3"),
        *("--config", "retention.ms=3600000"),
    )
    assert created.strip() == f"Created topic {unique}."

    head, *partitions = tools.run("kafka-topics", "--describe", "--topic", unique).splitlines()
    assert re.search(rf"Topic: {unique}\s+TopicId: [-\w]{{22}}\s+PartitionCount: 3\s+ReplicationFactor: 1\s", head), (
        head
    )
    assert "retention.ms=3600000" in head
    found = [re.search(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\d+)\s+Isr: (\d+)", line) for line in partitions]
    assert [row.groups() for row in found if row] == [(str(number), "1", "1", "1") for number in range(3)]

    tools.run("kafka-topics", "--delete", "--topic", unique)
    assert unique not in tools.run("kafka-topics", "--list").split()


def test_console_producer_and_consumer_agree_and_the_group_tool_sees_and_resets_offsets(
    tools: Tools, shared_broker: BrokerProcess, unique: str
) -> None:
    group = f"group-{unique}"
    fill(tools, shared_broker, unique, 20)
    read = tools.run(
        *("kafka-console-consumer", "--topic", unique, "--group", group),
        *("--from-beginning", "--max-messages", "15", "--timeout-ms", "20000"),
    )
    assert read.splitlines() == [f"line {number}" for number in range(15)]

    def described() -> list[str]:
        lines = tools.run("kafka-consumer-groups", "--describe", "--group", group).splitlines()
        row = next(line for line in lines if line.startswith(group))
        return row.split()[:6]

    assert described() == [group, unique, "0", "15", "20", "5"]
    assert group in tools.run("kafka-consumer-groups", "--list").split()

    reset = ("kafka-consumer-groups", "--reset-offsets", "--group", group, "--topic", unique)
    tools.run(*reset, "--to-earliest", "--execute")
    assert described() == [group, unique, "0", "0", "20", "20"]
    tools.run(*reset, "--shift-by", "7", "--execute")
    assert described() == [group, unique, "0", "7", "20", "13"]


def test_the_performance_tools_move_all_records(tools: Tools, unique: str) -> None:
    sent = tools.run(
        *("kafka-producer-perf-test", "--topic", unique),
        *("--num-records", "20000", "--record-size", "200", "--throughput", "-1"),
    )
    assert "20000 records sent" in sent
    header, row = tools.run(
        *("kafka-consumer-perf-test", "--topic", unique, "--num-records", "20000", "--timeout", "20000")
    ).splitlines()[-2:]
    columns = dict(zip(header.split(", "), row.split(", "), strict=True))
    count = columns.get("data.consumed.in.nMsg") or columns["nMsg"]
    assert int(count) == 20000


def test_get_offsets_answers_for_both_ends_and_the_greatest_time(
    tools: Tools, shared_broker: BrokerProcess, unique: str
) -> None:
    fill(tools, shared_broker, unique, 12)

    def offset(time: str) -> str:
        return tools.run("kafka-get-offsets", "--topic", unique, "--time", time).strip()

    assert offset("latest") == f"{unique}:0:12"
    assert offset("earliest") == f"{unique}:0:0"
    assert re.fullmatch(rf"{unique}:0:\d+", offset("max-timestamp"))


def test_records_are_deleted_up_to_the_offsets_of_a_file(
    tools: Tools, shared_broker: BrokerProcess, unique: str, tmp_path: Path
) -> None:
    fill(tools, shared_broker, unique, 12)
    wanted = tmp_path / "offsets.json"

    def delete(offset: int, partition: int = 0) -> str:
        entry = {"topic": unique, "partition": partition, "offset": offset}
        wanted.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        return tools.run("kafka-delete-records", "--offset-json-file", str(wanted))

    def earliest() -> str:
        return tools.run("kafka-get-offsets", "--topic", unique, "--time", "earliest").strip()

    assert f"partition: {unique}-0\tlow_watermark: 5" in delete(5)
    assert earliest() == f"{unique}:0:5"
    assert "low_watermark: 5" in delete(3)
    assert "OffsetOutOfRangeException" in delete(13)
    assert "low_watermark: 12" in delete(-1)
    assert earliest() == f"{unique}:0:12"


def test_every_api_the_tools_need_is_offered_and_usable(tools: Tools) -> None:
    printed = tools.run("kafka-broker-api-versions")
    assert "UNKNOWN" not in printed
    usable = set(re.findall(r"^\s*(\w+)\(\d+\): \d+(?: to \d+)? \[usable: \d+\]", printed, re.MULTILINE))
    assert usable >= NEEDED_APIS
