"""Configs altered and described by stock admin clients, on a broker of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin as confluent
import kafka.admin as kafka_python
import pytest
from confluent_kafka import KafkaException

from tests.harness import tool_host
from tests.harness.broker import BrokerProcess, broker_class
from tests.harness.raw import RawClient, eventually

TOPIC_SOURCE, BROKER_SOURCE, DEFAULTS_SOURCE, STATIC_SOURCE, BUILT_IN_SOURCE = 1, 2, 3, 4, 5


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = broker_class()(tmp_path_factory.mktemp("configs"), {"log.retention.hours": "48"})
    broker.start()
    yield broker
    broker.close()
    assert not broker.trouble()


@pytest.fixture
def topic(own_broker: BrokerProcess, unique: str) -> str:
    with RawClient((own_broker.host, own_broker.port)) as client:
        client.create_topic(unique)
    return unique


# confluent-kafka


@pytest.fixture
def librdkafka(own_broker: BrokerProcess) -> confluent.AdminClient:
    return confluent.AdminClient({"bootstrap.servers": own_broker.bootstrap})


def entry(name: str, operation: confluent.AlterConfigOpType, value: str | None = None) -> confluent.ConfigEntry:
    return confluent.ConfigEntry(name, value, incremental_operation=operation)


def altered(admin: confluent.AdminClient, kind: str, name: str, *entries: confluent.ConfigEntry) -> None:
    resource = confluent.ConfigResource(kind, name, incremental_configs=list(entries))
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=20)


def described(admin: confluent.AdminClient, kind: str, name: str, key: str) -> tuple[Any, int]:
    [future] = admin.describe_configs([confluent.ConfigResource(kind, name)]).values()
    found = future.result(timeout=20)[key]
    return found.value, found.source


def test_librdkafka_alters_single_values_of_a_topic(librdkafka: confluent.AdminClient, topic: str) -> None:
    op = confluent.AlterConfigOpType
    altered(
        librdkafka,
        "topic",
        topic,
        entry("retention.ms", op.SET, "1000"),
        entry("cleanup.policy", op.APPEND, "compact"),
    )
    assert described(librdkafka, "topic", topic, "retention.ms") == ("1000", TOPIC_SOURCE)
    assert described(librdkafka, "topic", topic, "cleanup.policy") == ("delete,compact", TOPIC_SOURCE)
    altered(
        librdkafka, "topic", topic, entry("retention.ms", op.DELETE), entry("cleanup.policy", op.SUBTRACT, "delete")
    )
    assert described(librdkafka, "topic", topic, "retention.ms")[0] == str(48 * 3_600_000)
    assert described(librdkafka, "topic", topic, "cleanup.policy") == ("compact", TOPIC_SOURCE)


def test_librdkafka_replaces_all_values_of_a_topic(librdkafka: confluent.AdminClient, topic: str) -> None:
    for configs in ({"flush.ms": "100", "compression.type": "gzip"}, {"compression.type": "gzip"}):
        resource = confluent.ConfigResource("topic", topic, set_config=configs)
        [future] = librdkafka.alter_configs([resource]).values()
        future.result(timeout=20)
    assert described(librdkafka, "topic", topic, "flush.ms") == (str(2**63 - 1), BUILT_IN_SOURCE)
    assert described(librdkafka, "topic", topic, "compression.type") == ("gzip", TOPIC_SOURCE)


def test_librdkafka_is_told_why_a_value_is_refused(librdkafka: confluent.AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        altered(librdkafka, "topic", topic, entry("segment.ms", confluent.AlterConfigOpType.SET, "0"))
    assert refusal.value.args[0].name() == "INVALID_CONFIG"
    assert "Value must be at least 1" in refusal.value.args[0].str()
    with pytest.raises(KafkaException) as refusal:
        altered(librdkafka, "broker", "1", entry("log.retention.hours", confluent.AlterConfigOpType.SET, "1"))
    assert refusal.value.args[0].name() == "INVALID_REQUEST"


# kafka-python


@pytest.fixture
def python_admin(own_broker: BrokerProcess) -> Iterator[kafka_python.KafkaAdminClient]:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    yield admin
    admin.close()


@pytest.mark.parametrize("incremental", [True, False])
def test_kafka_python_alters_a_topic_and_resets_it(
    python_admin: kafka_python.KafkaAdminClient, topic: str, incremental: bool
) -> None:
    def overrides() -> dict[str, Any]:
        """Ask for what is set; the client leaves out what has its default."""
        found = python_admin.describe_configs([kafka_python.ConfigResource("TOPIC", topic)])["topic"][topic]
        return {key: row["value"] for key, row in found.items() if key == "max.message.bytes"}

    resource = kafka_python.ConfigResource("TOPIC", topic, configs={"max.message.bytes": "5000"})
    python_admin.alter_configs([resource], incremental=incremental)
    assert {key: int(value) for key, value in overrides().items()} == {"max.message.bytes": 5000}
    python_admin.reset_configs([kafka_python.ConfigResource("TOPIC", topic, configs=["max.message.bytes"])])
    assert overrides() == {}


# Java


def configs(broker: BrokerProcess, *arguments: str) -> str:
    return tool_host.run("kafka-configs", "--bootstrap-server", broker.bootstrap, *arguments)


def refused(broker: BrokerProcess, *arguments: str) -> str:
    done = tool_host.attempt("kafka-configs", "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.code != 0
    return done.text


def told(printed: str, key: str) -> tuple[str, list[str]]:
    """Return a key's value and its synonyms as the tool prints them."""
    line = next(line for line in printed.splitlines() if line.strip().startswith(f"{key}="))
    value, synonyms = re.match(r"\s*[\w.]+=(.*?) sensitive=\w+ synonyms=\{(.*)\}", line).groups()  # type: ignore[union-attr]
    return value, synonyms.split(", ") if synonyms else []


@pytest.mark.jvm
def test_kafka_configs_alters_describes_and_deletes_at_every_level(own_broker: BrokerProcess, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    of_all = ("--entity-type", "brokers", "--entity-default")
    for entity, key, value in (
        (of_all, "log.retention.ms", "3000"),
        (of_broker, "log.retention.ms", "2000"),
        (of_topic, "retention.ms", "1000"),
    ):
        assert "Completed updating" in configs(own_broker, *entity, "--alter", "--add-config", f"{key}={value}")
    assert told(configs(own_broker, *of_topic, "--describe"), "retention.ms") == (
        "1000",
        [
            "DYNAMIC_TOPIC_CONFIG:retention.ms=1000",
            "DYNAMIC_BROKER_CONFIG:log.retention.ms=2000",
            "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=3000",
            "STATIC_BROKER_CONFIG:log.retention.hours=48",
            "DEFAULT_CONFIG:log.retention.hours=168",
        ],
    )
    assert told(configs(own_broker, *of_broker, "--describe"), "log.retention.ms")[0] == "2000"
    assert told(configs(own_broker, *of_all, "--describe"), "log.retention.ms")[0] == "3000"
    for entity, key in ((of_topic, "retention.ms"), (of_broker, "log.retention.ms"), (of_all, "log.retention.ms")):
        configs(own_broker, *entity, "--alter", "--delete-config", key)
    assert "retention.ms" not in configs(own_broker, *of_topic, "--describe")
    everything = configs(own_broker, *of_topic, "--describe", "--all")
    assert told(everything, "retention.ms")[0] == str(48 * 3_600_000)
    assert "Cannot update these configs dynamically" in refused(
        own_broker, *of_broker, "--alter", "--add-config", "num.partitions=5"
    )


def test_a_change_of_the_broker_is_in_force_without_a_restart_and_after_one(
    own_broker: BrokerProcess, librdkafka: confluent.AdminClient, topic: str
) -> None:
    op = confluent.AlterConfigOpType

    def is_described(value: str, source: int) -> bool:
        """Ask once more where the broker may answer before the change is in force, as the reference does."""
        return described(librdkafka, "topic", topic, "max.message.bytes") == (value, source)

    altered(librdkafka, "broker", "1", entry("message.max.bytes", op.SET, "2222"))
    eventually(lambda: is_described("2222", BROKER_SOURCE))
    own_broker.restart()
    eventually(lambda: is_described("2222", BROKER_SOURCE))
    altered(librdkafka, "broker", "1", entry("message.max.bytes", op.DELETE))
    eventually(lambda: is_described("1048588", BUILT_IN_SOURCE))
