"""Apache Kafka's tools for operators: configs, elections, features, the quorum, client metrics, groups, records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness import java
from tests.harness.broker import BrokerProcess
from tests.harness.java import MAIN_CLASSES
from tests.harness.raw import RawClient, eventually
from tests.harness.tool_host import Tools

pytestmark = pytest.mark.jvm


def test_configs_of_each_kind_are_altered_described_and_deleted(tools: Tools, unique: str) -> None:
    for kind, name, key, value in (
        ("client-metrics", unique, "interval.ms", "7000"),
        ("groups", unique, "consumer.session.timeout.ms", "50000"),
    ):
        entity = ("--entity-type", kind, "--entity-name", name)
        tools.run("kafka-configs", *entity, "--alter", "--add-config", f"{key}={value}")
        assert f"{key}={value}" in tools.run("kafka-configs", *entity, "--describe")
        listed = tools.run("kafka-configs", "--entity-type", kind, "--describe")
        assert name in listed, (kind, listed)
        tools.run("kafka-configs", *entity, "--alter", "--delete-config", key)
        assert f"{key}={value}" not in tools.run("kafka-configs", *entity, "--describe")
    refused = tools.attempt(
        *("kafka-configs", "--entity-type", "groups", "--entity-name", unique),
        *("--alter", "--add-config", "consumer.session.timeout.ms=1"),
    )
    assert refused.code and "consumer.session.timeout.ms must be greater than or equal to" in refused.text


def test_users_have_credentials_and_quotas(tools: Tools, unique: str) -> None:
    user = ("--entity-type", "users", "--entity-name", unique)
    tools.run("kafka-configs", *user, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    tools.run("kafka-configs", *user, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50")

    def described() -> str:
        return tools.run("kafka-configs", *user, "--describe")

    shown = described()
    assert "SCRAM-SHA-256=iterations=8192" in shown and "secret" not in shown
    assert "producer_byte_rate=1024.0" in shown and "request_percentage=50.0" in shown
    tools.run("kafka-configs", *user, "--alter", "--delete-config", "SCRAM-SHA-256")
    tools.run("kafka-configs", *user, "--alter", "--delete-config", "producer_byte_rate")
    shown = described()
    assert "SCRAM" not in shown and "producer_byte_rate" not in shown and "request_percentage" in shown
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.7")
    tools.run("kafka-configs", *address, "--alter", "--add-config", "connection_creation_rate=20")
    assert "connection_creation_rate=20.0" in tools.run("kafka-configs", *address, "--describe")
    tools.run("kafka-configs", *address, "--alter", "--delete-config", "connection_creation_rate")


def test_leaders_that_lead_are_left_alone(tools: Tools, unique: str) -> None:
    tools.run("kafka-topics", "--create", "--topic", unique, "--partitions", "2")
    election = ("kafka-leader-election", "--election-type", "preferred")
    assert "Valid replica already elected for partitions" in tools.run(*election, "--topic", unique, "--partition", "0")
    tools.run(*election, "--all-topic-partitions")
    missing = tools.attempt(*election, "--topic", unique, "--partition", "9")
    assert missing.code and f"{unique}-9" in missing.text


def test_features_are_described_and_set(tools: Tools) -> None:
    described = tools.run("kafka-features", "describe")
    assert re.search(
        r"Feature: metadata\.version\s+SupportedMinVersion: 3\.3-IV3\s.*FinalizedVersionLevel: 4\.2-IV1\s", described
    )
    upgraded = tools.run("kafka-features", "upgrade", "--feature", "metadata.version=29")
    assert "metadata.version was upgraded to 29." in upgraded
    refused = tools.attempt("kafka-features", "downgrade", "--feature", "metadata.version=7")
    assert refused.code and "metadata.version" in refused.text


def test_the_quorum_is_described(tools: Tools) -> None:
    status = tools.run("kafka-metadata-quorum", "describe", "--status")
    assert re.search(r"^LeaderId:\s+1$", status, re.MULTILINE)
    assert re.search(r"^MaxFollowerLag:\s+0$", status, re.MULTILINE)
    assert re.search(r"^CurrentObservers:\s+\[\]$", status, re.MULTILINE)
    replication = tools.run("kafka-metadata-quorum", "describe", "--replication")
    assert len(replication.splitlines()) == 2 and replication.splitlines()[1].split()[-1] == "Leader"


def test_unknown_brokers_cannot_be_unregistered(bootstrap: str) -> None:
    done = java.run(MAIN_CLASSES["kafka-cluster"], "unregister", "--bootstrap-server", bootstrap, "--id", "77")
    assert "Broker ID 77 is not currently registered" in done.stdout + done.stderr


def test_client_metrics_are_subscribed_to(tools: Tools, unique: str) -> None:
    wishes = ("--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "--interval", "5000")
    match = ("--match", "client_software_name=apache-kafka-java")
    tools.run("kafka-client-metrics", "--alter", "--name", unique, *wishes, *match)
    described = tools.run("kafka-client-metrics", "--describe", "--name", unique)
    assert "interval.ms=5000" in described and "match=client_software_name=apache-kafka-java" in described
    assert unique in tools.run("kafka-client-metrics", "--list").split()
    tools.run("kafka-client-metrics", "--delete", "--name", unique)
    assert unique not in tools.run("kafka-client-metrics", "--list").split()


def test_a_java_consumer_pushes_what_a_subscription_wants(
    tools: Tools, shared_broker: BrokerProcess, unique: str, is_reference: bool
) -> None:
    if is_reference:
        pytest.skip("without a plugin the reference offers no telemetry")
    tools.run("kafka-client-metrics", "--alter", "--name", unique, "--metrics", "*", "--interval", "100")
    try:
        tools.run("kafka-console-producer", "--topic", unique, stdin="a\nb\n")
        tools.run(
            *("kafka-console-consumer", "--topic", unique, "--from-beginning", "--timeout-ms", "3000"),
            *("--command-property", f"client.id={unique}"),
        )
        exported = shared_broker.http_get("/metrics")
        pushed = [line for line in exported.splitlines() if line.startswith("odradek_client_metric{")]
        assert any(f'client_id="{unique}"' in line and "org.apache.kafka." in line for line in pushed), pushed
    finally:
        tools.run("kafka-client-metrics", "--delete", "--name", unique)


def test_every_command_about_groups(tools: Tools, shared_broker: BrokerProcess, unique: str, tmp_path: Path) -> None:
    group = f"group-{unique}"
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 2)
    tools.run("kafka-console-producer", "--topic", unique, stdin="".join(f"{n}\n" for n in range(10)))
    consume = ("--topic", unique, "--group", group, "--from-beginning", "--max-messages", "10", "--timeout-ms", "20000")
    tools.run("kafka-console-consumer", *consume)

    def groups(*arguments: str) -> str:
        return tools.run("kafka-consumer-groups", *arguments)

    assert group in groups("--list").split()
    assert re.search(rf"^{group}\s+Classic\s+Empty|^{group}\s+Empty", groups("--list", "--state"), re.MULTILINE)
    offsets = groups("--describe", "--group", group, "--offsets")
    assert len([line for line in offsets.splitlines() if line.startswith(group)]) == 2
    members = tools.attempt("kafka-consumer-groups", "--describe", "--group", group, "--members")
    assert "has no active members" in members.text
    assert re.search(rf"^{group}\s.*\sEmpty\s+0", groups("--describe", "--group", group, "--state"), re.MULTILINE)

    reset = ("--reset-offsets", "--group", group, "--topic", unique)
    exported = groups(*reset, "--to-earliest", "--dry-run", "--export")
    assert sorted(exported.split()) == [f"{unique},{number},0" for number in (0, 1)]
    plan = tmp_path / "offsets.csv"
    plan.write_text(f"{unique},0,0\n{unique},1,0\n")
    groups("--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")

    def committed() -> dict[str, str]:
        rows = [line.split() for line in groups("--describe", "--group", group).splitlines() if line.startswith(group)]
        return {row[2]: row[3] for row in rows}

    assert committed() == {"0": "0", "1": "0"}
    deleted = groups("--delete-offsets", "--group", group, "--topic", f"{unique}:0")
    assert "Successful" in deleted
    assert {number: offset for number, offset in committed().items() if offset != "-"} == {"1": "0"}
    assert "was successful" in groups("--delete", "--group", group)
    eventually(lambda: group not in groups("--list").split())
    missing = tools.attempt("kafka-consumer-groups", "--delete", "--group", group)
    assert "GroupIdNotFoundException" in missing.text


def test_rules_are_refused_without_an_authorizer(tools: Tools) -> None:
    listed = tools.attempt("kafka-acls", "--list")
    assert "SecurityDisabledException" in listed.text
