"""With the setting that docs/scheduled-delivery.md names, a client sends each record as a batch of its own."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from tests.harness import batches
from tests.harness.broker import ROOT, BrokerProcess
from tests.harness.raw import RawClient
from tests.harness.tool_host import Tools

TABLE = (ROOT / "docs" / "scheduled-delivery.md").read_text().partition("## Sending\n")[2].partition("\n**")[0]
BURST = 500
TIMEOUT_S = 60


def send_by_java(bootstrap: str, topic: str, settings: dict[str, Any], tools: Tools) -> None:
    pairs = [f"{name}={value}" for name, value in {"bootstrap.servers": bootstrap, **settings}.items()]
    size = ("--num-records", str(BURST), "--record-size", "20", "--throughput", "-1")
    tools.run("kafka-producer-perf-test", "--topic", topic, *size, "--command-property", *pairs)


def send_by_librdkafka(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    for number in range(BURST):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0


def send_by_kafka_python(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    for number in range(BURST):
        producer.send(topic, b"%d" % number)
    producer.close()


async def send_by_aiokafka(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        await asyncio.gather(*[await producer.send(topic, b"%d" % number) for number in range(BURST)])


@pytest.mark.parametrize(
    "client", [pytest.param("Java", marks=pytest.mark.jvm), "librdkafka", "kafka-python", "aiokafka"]
)
async def test_the_settings_of_the_table_give_each_record_a_batch(
    client: str, shared_broker: BrokerProcess, unique: str, request: pytest.FixtureRequest
) -> None:
    [cell] = re.findall(rf"^\| {client}[ ,|].*\| ([^|]+) \|$", TABLE, re.MULTILINE)
    name, value = re.findall(r"`([\w.]+)=(\d+)`", cell)[0]
    settings, bootstrap = {name: int(value)}, shared_broker.bootstrap
    if client == "Java":
        send_by_java(bootstrap, unique, settings, request.getfixturevalue("tools"))
    elif client == "aiokafka":
        await send_by_aiokafka(bootstrap, unique, settings)
    else:
        {"librdkafka": send_by_librdkafka, "kafka-python": send_by_kafka_python}[client](bootstrap, unique, settings)
    with RawClient((shared_broker.host, shared_broker.port)) as client_of_ours:
        assert [batch.count for batch in batches.parse(client_of_ours.fetch_all(unique))] == [1] * BURST
