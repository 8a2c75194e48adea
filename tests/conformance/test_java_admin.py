"""Apache Kafka's tools for operators: users, elections, features, the quorum, client metrics."""

from __future__ import annotations

import re

import pytest

from tests.harness.broker import BrokerProcess
from tests.harness.tool_host import ToolHost, Tools

pytestmark = pytest.mark.jvm


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


def test_features_are_described_and_set(tools: Tools, *, is_reference: bool) -> None:
    name, level = ("4.3-IV0", 30) if is_reference else ("4.2-IV1", 29)
    described = tools.run("kafka-features", "describe")
    assert re.search(
        rf"Feature: metadata\.version\s+SupportedMinVersion: 3\.3-IV3\s.*FinalizedVersionLevel: {name}\s", described
    )
    upgraded = tools.run("kafka-features", "upgrade", "--feature", f"metadata.version={level}")
    assert f"metadata.version was upgraded to {level}." in upgraded
    refused = tools.attempt("kafka-features", "downgrade", "--feature", "metadata.version=7")
    assert refused.code and "metadata.version" in refused.text


def test_the_quorum_is_described(tools: Tools) -> None:
    status = tools.run("kafka-metadata-quorum", "describe", "--status")
    assert re.search(r"^LeaderId:\s+1$", status, re.MULTILINE)
    assert re.search(r"^MaxFollowerLag:\s+0$", status, re.MULTILINE)
    assert re.search(r"^CurrentObservers:\s+\[\]$", status, re.MULTILINE)
    replication = tools.run("kafka-metadata-quorum", "describe", "--replication")
    assert len(replication.splitlines()) == 2 and replication.splitlines()[1].split()[-1] == "Leader"


def test_unknown_brokers_cannot_be_unregistered(tool_host: ToolHost, bootstrap: str) -> None:
    done = tool_host.attempt("kafka-cluster", "unregister", "--bootstrap-server", bootstrap, "--id", "77")
    assert "Broker ID 77 is not currently registered" in done.text


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
