"""Operators' other tools: elections, features, the quorum, client metrics, rules, offsets, deleted records, streams."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.harness import batches
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import ToolHost, Tools
from tests.harness.transacting import RawProducer

pytestmark = pytest.mark.jvm


@pytest.fixture
def topic(shared_broker: BrokerProcess, unique: str) -> str:
    """Give a topic with two partitions and, in the first one, three records, the second of them the latest."""
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 2)
        for timestamp in (1_000, 3_000, 2_000):
            client.append(unique, batches.simple("x", timestamp=timestamp))
    return unique


@pytest.mark.parametrize("election", ["preferred", "unclean"])
def test_leaders_are_elected_by_a_file_or_all_at_once(tools: Tools, topic: str, tmp_path: Path, election: str) -> None:
    elect = ("kafka-leader-election", "--election-type", election)
    wanted = tmp_path / "partitions.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": number} for number in (0, 1)]}))
    printed = tools.run(*elect, "--path-to-json-file", str(wanted))
    head, _, names = printed.strip().partition(" for partitions ")
    assert head == "Valid replica already elected" and set(names.split(", ")) == {f"{topic}-0", f"{topic}-1"}
    assert tools.run(*elect, "--all-topic-partitions").strip() == ""
    refused = tools.refusal(*elect, "--topic", f"{topic}-missing", "--partition", "0")
    assert "UnknownTopicOrPartitionException" in refused and f"{topic}-missing-0" in refused


def test_features_go_up_and_down_and_away(broker_factory: BrokerFactory, tool_host: ToolHost) -> None:
    tools = Tools(tool_host, broker_factory().bootstrap)

    def finalized(feature: str) -> str:
        found = re.search(
            rf"^Feature: {re.escape(feature)}\s.*FinalizedVersionLevel: (\S+)",
            tools.run("kafka-features", "describe"),
            re.MULTILINE,
        )
        assert found is not None
        return found[1]

    def change(verb: str, feature: str, *options: str) -> str:
        return tools.run("kafka-features", verb, "--feature", feature, *options).strip()

    assert change("downgrade", "transaction.version=1", "--dry-run") == "transaction.version can be downgraded to 1."
    assert finalized("transaction.version") == "2"
    assert change("downgrade", "transaction.version=1") == "transaction.version was downgraded to 1."
    eventually(lambda: finalized("transaction.version") == "1")
    assert change("upgrade", "transaction.version=2", "--dry-run") == "transaction.version can be upgraded to 2."
    assert finalized("transaction.version") == "1"
    assert change("upgrade", "transaction.version=2") == "transaction.version was upgraded to 2."
    eventually(lambda: finalized("transaction.version") == "2")
    assert change("disable", "group.version", "--dry-run") == "group.version can be disabled."
    assert finalized("group.version") == "1"
    assert change("disable", "group.version") == "group.version was disabled."
    eventually(lambda: finalized("group.version") == "0")
    assert change("upgrade", "group.version=1") == "group.version was upgraded to 1."

    def refused(verb: str, feature: str) -> str:
        return tools.refusal("kafka-features", verb, "--feature", feature)

    assert "only supports versions 0-1" in refused("upgrade", "group.version=5")
    assert "does not support this feature" in refused("upgrade", "no.such.version=1")
    assert "Could not disable metadata.version." in refused("disable", "metadata.version")
    assert "transaction.version=2 has no dependencies." in tools.run(
        "kafka-features", "feature-dependencies", "--feature", "transaction.version=2"
    )


def test_the_quorum_is_described_for_humans(tools: Tools) -> None:
    head, row = tools.run("kafka-metadata-quorum", "describe", "--replication", "--human-readable").splitlines()
    assert head.split()[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    assert re.fullmatch(r"1\s+\S{22}\s+\d+\s+0\s+\d+ ms ago\s+\d+ ms ago\s+Leader\s*", row)
    status = tools.run("kafka-metadata-quorum", "describe", "--status")
    [voters] = re.findall(r"^CurrentVoters:\s+(\[.*\])$", status, re.MULTILINE)
    [voter] = json.loads(voters)
    assert voter["id"] == 1 and voter["endpoints"][0].startswith("CONTROLLER://")
    assert "One of --status or --replication" in tools.refusal("kafka-metadata-quorum", "describe")


def test_client_metrics_get_a_name_if_they_have_none(tools: Tools, unique: str) -> None:
    metrics = "kafka-client-metrics"
    altered = tools.run(metrics, "--alter", "--generate-name", "--metrics", "a.", "--interval", "1000")
    found = re.search(r"Altered client metrics config for (\S{22})\.", altered)
    assert found is not None
    name = found[1]
    try:
        assert name in tools.run(metrics, "--list").split()
        described = tools.run(metrics, "--describe")
        assert f"Client metrics configs for {name} are:\n  interval.ms=1000\n  match=\n  metrics=a." in described
        assert "interval must be between 100 and 3600000" in tools.refusal(
            metrics, "--alter", "--name", name, "--interval", "10"
        )
    finally:
        tools.run(metrics, "--delete", "--name", name)
    assert f"The client metric resource {unique} doesn't exist" in tools.run(metrics, "--describe", "--name", unique)


@pytest.mark.parametrize("verb", ["--list", "--add", "--remove"])
def test_rules_need_an_authorizer(tools: Tools, unique: str, verb: str) -> None:
    rule = () if verb == "--list" else ("--allow-principal", "User:a", "--operation", "READ", "--topic", unique)
    force = ("--force",) if verb == "--remove" else ()
    assert "No Authorizer is configured" in tools.refusal("kafka-acls", verb, *rule, *force)


def test_offsets_at_every_time(tools: Tools, shared_broker: BrokerProcess, topic: str) -> None:
    def offsets(*options: str) -> dict[str, int]:
        lines = tools.run("kafka-get-offsets", *options).split()
        return {place: int(offset) for place, offset in (line.rsplit(":", 1) for line in lines)}

    def at(time: str | int) -> dict[str, int]:
        return offsets("--topic", topic, "--time", str(time))

    first, second = f"{topic}:0", f"{topic}:1"
    assert at("latest") == at(-1) == {first: 3, second: 0}
    assert at("earliest") == at(-2) == at("earliest-local") == at(-4) == {first: 0, second: 0}
    assert at("max-timestamp") == at(-3) == {first: 1}, "an empty partition has no greatest timestamp"
    assert at("latest-tiered") == at(-5) == at("earliest-pending-upload") == at(-6) == {}
    assert at(1_001) == at(3_000) == {first: 1} and at(3_001) == {}
    assert offsets("--topic-partitions", f"{topic}:0") == offsets("--topic", topic, "--partitions", "0") == {first: 3}
    assert offsets("--topic-partitions", f"{topic[:-1]}.:1-") == {second: 0}
    assert at(-1).items() <= offsets("--exclude-internal-topics").items()
    assert not any(place.startswith("__") for place in offsets("--exclude-internal-topics"))
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        RawProducer(client, topic).init()
    assert any(place.startswith("__transaction_state:") for place in offsets("--topic", "__.*"))


def test_records_of_several_partitions_are_deleted_at_once(tools: Tools, topic: str, tmp_path: Path) -> None:
    wanted = tmp_path / "offsets.json"
    entries = [{"topic": topic, "partition": number, "offset": offset} for number, offset in ((0, 2), (1, -1))]
    wanted.write_text(json.dumps({"version": 1, "partitions": entries}))
    printed = tools.run("kafka-delete-records", "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 2" in printed
    assert f"partition: {topic}-1\tlow_watermark: 0" in printed
    assert tools.run("kafka-get-offsets", "--topic", topic, "--time", "earliest").split() == [
        f"{topic}:0:2",
        f"{topic}:1:0",
    ]
    wanted.write_text(json.dumps({"version": 1, "partitions": [entries[0], entries[0]]}))
    assert "duplicate topic partitions" in tools.attempt("kafka-delete-records", "--offset-json-file", str(wanted)).text


def test_records_with_keys_and_headers_go_through_the_console(tools: Tools, topic: str) -> None:
    tools.run(
        *("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true"),
        *("--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL"),
        *("--command-property", "compression.type=zstd", "--command-property", "enable.idempotence=true"),
        stdin="a:1,b:2\tkey\tvalue\nNULL\tkey\tNULL\n",
    )
    shown = tools.run(
        *(
            "kafka-console-consumer",
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            "5",
            "--timeout-ms",
            "20000",
        ),
        *("--isolation-level", "read_committed", "--command-property", "group.protocol=consumer"),
        *(f"--formatter-property=print.{what}=true" for what in ("key", "headers", "timestamp", "offset")),
        "--formatter-property=null.literal=NULL",
    )
    lines = sorted(shown.splitlines())
    assert len(lines) == 5
    assert [line for line in lines if line.startswith("CreateTime:1000\t")] == [
        "CreateTime:1000\tOffset:0\tNO_HEADERS\tNULL\tx"
    ]
    described = [line.split("\t")[2:] for line in lines if "key" in line]
    assert sorted(described) == [["NO_HEADERS", "key", "NULL"], ["a:1,b:2", "key", "value"]]


def test_latencies_from_end_to_end_are_measured(tools: Tools, unique: str) -> None:
    measured = tools.run(
        *("kafka-e2e-latency", "--topic", unique, "--num-records", "100", "--producer-acks", "all"),
        *(
            "--record-size",
            "30",
            "--record-key-size",
            "3",
            "--num-headers",
            "1",
            "--record-header-key-size",
            "5",
            "--record-header-size",
            "5",
        ),
    )
    found = re.search(r"Avg latency: ([\d.]+) ms", measured)
    assert found is not None and float(found[1]) > 0


def test_a_streams_application_is_reset(tools: Tools, topic: str) -> None:
    group, changelog = f"app-{topic}", f"app-{topic}-store-changelog"
    groups = ("kafka-consumer-groups", "--group", group)
    tools.run(*groups, "--reset-offsets", "--topic", topic, "--to-latest", "--execute")
    tools.run("kafka-topics", "--create", "--topic", changelog)
    reset = ("kafka-streams-application-reset", "--application-id", group, "--input-topics", topic)
    planned = tools.run(*reset, "--dry-run")
    assert f"Topic: {topic} Partition: 0 Offset: 0" in planned and changelog in planned
    assert changelog in tools.run("kafka-topics", "--list").split()
    tools.run(*reset)
    assert changelog not in tools.run("kafka-topics", "--list").split()
    described = tools.run(*groups, "--describe")
    assert sorted(line.split()[2:4] for line in described.splitlines() if line.startswith(group)) == [
        ["0", "0"],
        ["1", "0"],
    ]
