"""The keys of scheduled delivery by stock admin clients and Kafka's own tools: set, shown, refused and taken away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiokafka.admin as aiokafka
import kafka.admin as kafka_python
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent
from kafka.errors import InvalidConfigurationError

from protocol.errors import ErrorCode
from tests.harness.admin import (
    BROKER,
    DEFAULT_SOURCE,
    SET,
    STATIC_BROKER_SOURCE,
    TOPIC,
    TOPIC_SOURCE,
    alter_configs,
    change_configs,
)
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient
from tests.harness.tool_host import ToolHost, Tools

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Kafka has no such keys")

MODE, MAX_DELAY, MONOTONIC = "delivery.mode", "delivery.max.delay.ms", "delivery.schedule.monotonic"
UNCERTAINTY = "odradek.log.delivery.clock.uncertainty.ms"
BOOLEAN, STRING, LONG = 1, 2, 5
REFUSED = "delivery.mode=scheduled is unsupported"
COMPACTED = f"{REFUSED} for compacted topics"
STAMPED = f"{REFUSED} with message.timestamp.type=LogAppendTime"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Give a broker whose defaults these tests try to change."""
    broker = BrokerProcess(tmp_path_factory.mktemp("scheduling"), {UNCERTAINTY: "100"})
    broker.start()
    yield broker
    broker.close()
    assert not broker.trouble()


@pytest.fixture
def client(own_broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient((own_broker.host, own_broker.port)) as client:
        yield client


@pytest.fixture
def scheduled(client: RawClient, unique: str) -> Iterator[str]:
    """Give a scheduled topic that inherits all else; it goes with the test, so that it hinders no other."""
    client.create_topic(unique, **{MODE: "scheduled"})
    yield unique
    client.delete_topic(unique)


def described(client: RawClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    asked = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    [result] = client.request("describe_configs", 4, **asked).results
    assert result.error_code == ErrorCode.NONE
    return {row.name: row for row in result.configs}


def altered(client: RawClient, kind: int, name: str, key: str, value: str, **options: Any) -> tuple[int, str | None]:
    """Alter one value by the newer request; return error and message."""
    result = change_configs(client, name, [(key, SET, value)], kind=kind, **options)
    return result.error_code, result.error_message


def replaced(client: RawClient, kind: int, name: str, **values: str) -> tuple[int, str | None]:
    """Replace all values by the older request; return error and message."""
    result = alter_configs(client, name, values, kind=kind)
    return result.error_code, result.error_message


def test_the_keys_are_described_with_type_documentation_and_where_they_come_from(
    client: RawClient, scheduled: str
) -> None:
    rows = described(client, TOPIC, scheduled, MODE, MAX_DELAY, MONOTONIC)
    assert {name: (row.value, row.config_type, row.config_source) for name, row in rows.items()} == {
        MODE: ("scheduled", STRING, TOPIC_SOURCE),
        MAX_DELAY: ("604800000", LONG, DEFAULT_SOURCE),
        MONOTONIC: ("false", BOOLEAN, DEFAULT_SOURCE),
    }
    assert [(one.name, one.value, one.source) for one in rows[MODE].synonyms] == [(MODE, "scheduled", TOPIC_SOURCE)]
    assert all(row.documentation and not row.read_only and not row.is_sensitive for row in rows.values())
    [row] = described(client, BROKER, "1", UNCERTAINTY).values()
    assert (row.value, row.config_type, row.config_source, row.read_only) == ("100", LONG, STATIC_BROKER_SOURCE, True)
    assert row.documentation
    assert [(one.value, one.source) for one in row.synonyms] == [("100", STATIC_BROKER_SOURCE), ("250", DEFAULT_SOURCE)]
    code, message = altered(client, BROKER, "1", UNCERTAINTY, "50")
    assert code == ErrorCode.INVALID_REQUEST
    assert message == f"Cannot update these configs dynamically: [{UNCERTAINTY}]"


@pytest.mark.parametrize("broker", ["1", ""])
@pytest.mark.parametrize(
    ("key", "of_topic", "bad", "good", "reason"),
    [
        ("log.cleanup.policy", "cleanup.policy", "compact", "delete", COMPACTED),
        ("log.message.timestamp.type", "message.timestamp.type", "LogAppendTime", "CreateTime", STAMPED),
    ],
)
def test_what_excludes_scheduling_is_refused_from_every_side(
    client: RawClient, unique: str, broker: str, key: str, of_topic: str, bad: str, good: str, reason: str
) -> None:
    def refused(answer: tuple[int, str | None]) -> bool:
        code, message = answer
        return code == ErrorCode.INVALID_CONFIG and reason in (message or "")

    client.create_topic(unique, **{MODE: "scheduled"})
    assert refused(altered(client, TOPIC, unique, of_topic, bad))
    assert refused(altered(client, TOPIC, unique, of_topic, bad, validate_only=True))
    assert refused(replaced(client, TOPIC, unique, **{MODE: "scheduled", of_topic: bad}))
    assert refused(altered(client, BROKER, broker, key, bad))
    assert refused(altered(client, BROKER, broker, key, bad, validate_only=True))
    assert refused(replaced(client, BROKER, broker, **{key: bad}))
    # With a value of its own the topic does not care what the broker's is, until it gives that up.
    assert altered(client, TOPIC, unique, of_topic, good)[0] == ErrorCode.NONE
    assert altered(client, BROKER, broker, key, bad)[0] == ErrorCode.NONE
    try:
        assert refused(replaced(client, TOPIC, unique, **{MODE: "scheduled"}))
        assert refused(created(client, f"{unique}-b", {MODE: "scheduled"}))
        assert refused(created(client, f"{unique}-b", {MODE: "scheduled"}, validate_only=True))
        assert created(client, f"{unique}-b", {MODE: "scheduled", of_topic: good}, validate_only=True)[0] == 0
    finally:
        assert replaced(client, BROKER, broker)[0] == ErrorCode.NONE
    client.delete_topic(unique)


def created(
    client: RawClient, name: str, configs: dict[str, str], *, validate_only: bool = False
) -> tuple[int, str | None]:
    rows = [{"name": key, "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": rows}
    answer = client.request("create_topics", 7, topics=[topic], timeout_ms=10_000, validate_only=validate_only)
    [result] = answer.topics
    return result.error_code, result.error_message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {MODE: "later"},
            "Invalid value later for configuration delivery.mode: String must be one of: immediate, scheduled",
        ),
        (
            {MAX_DELAY: "-2"},
            "Invalid value -2 for configuration delivery.max.delay.ms: Value must be at least -1",
        ),
        (
            {MONOTONIC: "1"},
            "Invalid value 1 for configuration delivery.schedule.monotonic: Expected value to be either true or false",
        ),
    ],
)
def test_bad_values_are_refused_in_kafka_s_words(
    client: RawClient, unique: str, values: dict[str, str], message: str
) -> None:
    assert created(client, unique, values) == (ErrorCode.INVALID_CONFIG, message)


def test_kafka_python_creates_alters_and_resets(own_broker: BrokerProcess, client: RawClient, unique: str) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    try:
        topic = kafka_python.NewTopic(unique, 1, 1, topic_configs={MODE: "scheduled", MAX_DELAY: "1000"})
        admin.create_topics([topic], validate_only=True)
        admin.create_topics([topic])
        bad = kafka_python.NewTopic(f"{unique}-b", 1, 1, topic_configs={MODE: "scheduled", "cleanup.policy": "compact"})
        with pytest.raises(InvalidConfigurationError, match="for compacted topics"):
            admin.create_topics([bad])
        admin.alter_configs([kafka_python.ConfigResource("TOPIC", unique, configs={MONOTONIC: "true"})])
        rows = described(client, TOPIC, unique, MODE, MAX_DELAY, MONOTONIC)
        assert [rows[key].value for key in (MODE, MAX_DELAY, MONOTONIC)] == ["scheduled", "1000", "true"]
        admin.reset_configs([kafka_python.ConfigResource("TOPIC", unique, configs=[MODE, MAX_DELAY])])
        assert described(client, TOPIC, unique, MODE)[MODE].value == "immediate"
    finally:
        admin.close()


@pytest.fixture
def librdkafka(own_broker: BrokerProcess) -> confluent.AdminClient:
    return confluent.AdminClient({"bootstrap.servers": own_broker.bootstrap})


def test_librdkafka_creates_and_alters_and_is_told_why_not(
    librdkafka: confluent.AdminClient, client: RawClient, unique: str
) -> None:
    [future] = librdkafka.create_topics([confluent.NewTopic(unique, 1, 1, config={MODE: "scheduled"})]).values()
    future.result(timeout=20)
    operation = confluent.AlterConfigOpType.SET

    def alter(key: str, value: str) -> None:
        entry = confluent.ConfigEntry(key, value, incremental_operation=operation)
        resource = confluent.ConfigResource("topic", unique, incremental_configs=[entry])
        [future] = librdkafka.incremental_alter_configs([resource]).values()
        future.result(timeout=20)

    alter(MAX_DELAY, "-1")
    assert described(client, TOPIC, unique, MAX_DELAY)[MAX_DELAY].value == "-1"
    with pytest.raises(KafkaException) as refusal:
        alter("message.timestamp.type", "LogAppendTime")
    assert refusal.value.args[0].name() == "INVALID_CONFIG"
    assert STAMPED in refusal.value.args[0].str()
    client.delete_topic(unique)


async def test_aiokafka_creates_and_describes(own_broker: BrokerProcess, unique: str) -> None:
    admin = aiokafka.AIOKafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    await admin.start()
    keys = {MODE: "scheduled", MAX_DELAY: "7200000", MONOTONIC: "true"}
    await admin.create_topics([aiokafka.NewTopic(unique, 1, 1, topic_configs=keys)])
    [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, unique)])
    [resource] = answer.resources
    assert keys.items() <= {entry[0]: entry[1] for entry in resource[4]}.items()
    await admin.delete_topics([unique])
    await admin.close()


@pytest.mark.jvm
def test_of_kafka_s_tools_the_one_for_configs_sets_them_and_the_one_for_topics_knows_only_its_own(
    own_broker: BrokerProcess, tool_host: ToolHost, unique: str
) -> None:
    tools = Tools(tool_host, own_broker.bootstrap)
    scheduled = f"{MODE}=scheduled"
    told = tools.refusal("kafka-topics", "--create", "--topic", unique, "--config", scheduled)
    assert f"Unknown topic config name: {MODE}" in told
    tools.run("kafka-topics", "--create", "--topic", unique)
    topic = ("kafka-configs", "--entity-type", "topics", "--entity-name", unique)
    tools.run(*topic, "--alter", "--add-config", f"{scheduled},{MAX_DELAY}=5000")
    assert f"Configs: {MAX_DELAY}=5000,{scheduled}" in tools.run("kafka-topics", "--describe", "--topic", unique)
    assert f"synonyms={{DYNAMIC_TOPIC_CONFIG:{scheduled}}}" in tools.run(*topic, "--describe")
    assert COMPACTED in tools.refusal(*topic, "--alter", "--add-config", "cleanup.policy=compact")
    defaults = ("kafka-configs", "--broker-defaults", "--alter", "--add-config", "log.cleanup.policy=compact")
    assert f"Topic {unique} would inherit this: {COMPACTED}" in tools.refusal(*defaults)
    tools.run(*topic, "--alter", "--delete-config", f"{MODE},{MAX_DELAY}")
    assert MODE not in tools.run(*topic, "--describe")
