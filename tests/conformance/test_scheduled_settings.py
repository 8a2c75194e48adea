"""The keys of scheduled delivery through the admin clients of users, and what waiting consumers see of a change."""

from __future__ import annotations

import contextlib

import kafka.admin
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioType
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.harness import batches
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.client_host import ClientHost
from tests.harness.raw import RawClient, eventually
from tests.harness.readers import Reader, Wanted, now_ms, readers

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics")

TIMEOUT_S = 30
HOUR_MS = 3_600_000
KEYS = {"delivery.mode": "scheduled", "delivery.max.delay.ms": "7200000", "delivery.schedule.monotonic": "true"}


class ConfluentAdmin:
    """confluent-kafka's."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, configs: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, 1, config=configs)])[topic].result(TIMEOUT_S)

    def alter(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        [done] = self._admin.incremental_alter_configs([resource]).values()
        done.result(TIMEOUT_S)

    def describe(self, topic: str) -> dict[str, str]:
        [found] = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in found.result(TIMEOUT_S).items()}


def test_the_keys_are_set_described_and_changed_with_librdkafka(bootstrap: str, unique: str) -> None:
    admin = ConfluentAdmin(bootstrap)
    admin.create(unique, KEYS)
    assert KEYS.items() <= admin.describe(unique).items()
    admin.alter(unique, "delivery.schedule.monotonic", "false")
    admin.alter(unique, "delivery.mode", "immediate")
    changed = {"delivery.mode": "immediate", "delivery.schedule.monotonic": "false"}
    assert {**KEYS, **changed}.items() <= admin.describe(unique).items()


def test_the_keys_are_set_described_and_changed_with_kafka_python(bootstrap: str, unique: str) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([kafka.admin.NewTopic(unique, 1, 1, topic_configs=KEYS)])

    def described() -> dict[str, str]:
        found = admin.describe_configs([kafka.admin.ConfigResource("topic", unique)])
        return {name: entry["value"] for name, entry in found["topic"][unique].items()}

    assert KEYS.items() <= described().items()
    admin.alter_configs([kafka.admin.ConfigResource("topic", unique, {"delivery.mode": "immediate"})])
    assert described()["delivery.mode"] == "immediate"
    admin.close()


async def test_the_keys_are_set_and_described_with_aiokafka(bootstrap: str, unique: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([AioTopic(unique, 1, 1, topic_configs=KEYS)])
    [answer] = await admin.describe_configs([AioResource(AioType.TOPIC, unique)])
    [resource] = answer.resources
    assert KEYS.items() <= {entry[0]: entry[1] for entry in resource[4]}.items()
    await admin.close()


@pytest.mark.parametrize(
    "client", [pytest.param("java", marks=pytest.mark.jvm), "librdkafka", "kafka-python", "aiokafka", "kcat"]
)
def test_a_consumer_that_waits_gets_all_that_is_pending_when_its_topic_delivers_at_once(
    client: str, shared_broker: BrokerProcess, unique: str, client_host: ClientHost | None, kcat: str
) -> None:
    admin = ConfluentAdmin(shared_broker.bootstrap)
    admin.create(unique, {"delivery.mode": "scheduled"})
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(RawClient((shared_broker.host, shared_broker.port)))

        def send(value: str, ahead_ms: int) -> None:
            raw.append(unique, batches.simple(value, timestamp=int(now_ms()) + ahead_ms))

        raw.wait_for_topic(unique, 1)
        send("visible", -1_000)
        send("pending", HOUR_MS)
        send("behind it", -1_000)
        reader = readers(client_host, kcat)[client](shared_broker.bootstrap, Wanted(unique, 1))
        stack.callback(reader.stop)
        expect(reader, "visible")
        admin.alter(unique, "delivery.mode", "immediate")
        expect(reader, "visible", "pending", "behind it")
        admin.alter(unique, "delivery.mode", "scheduled")
        send("pending again", HOUR_MS)
        admin.alter(unique, "delivery.mode", "immediate")
        send("last", 0)
        expect(reader, "visible", "pending", "behind it", "pending again", "last")


def expect(reader: Reader, *values: str) -> None:
    """Wait until a consumer has seen these records, and no others."""
    eventually(lambda: len(reader.seen) >= len(values), what=f"{values}, not {reader.seen}")
    assert [one.value for one in reader.seen] == list(values)
