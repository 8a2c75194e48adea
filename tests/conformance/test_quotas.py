"""Stock clients under quotas: they are told to wait, wait, and lose nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.quotas import set_quota
from tests.harness.raw import RawClient

RATE = 100_000
PROPERTIES = {"quota.window.num": "3"}
AT_ONCE_S = 2
"""What goes through before anybody waits, in seconds of the quota."""
VALUE = bytes(10_000)
COUNT = 50
SECONDS = COUNT * len(VALUE) / RATE - AT_ONCE_S
"""How long the rest has to take."""


def _with_confluent(bootstrap: str, topic: str, client_id: str) -> int:
    throttled: list[float] = []
    settings = {"bootstrap.servers": bootstrap, "client.id": client_id}
    producer = Producer(
        {**settings, "batch.size": 50_000, "throttle_cb": lambda event: throttled.append(event.throttle_time)}
    )
    failures: list[object] = []
    for _ in range(COUNT):
        producer.produce(topic, VALUE, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0 and not failures
    assert max(throttled) > 0
    consumer = Consumer({**settings, "group.id": client_id, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen = 0
    deadline = time.monotonic() + 60
    while seen < COUNT and time.monotonic() < deadline:
        seen += sum(message.error() is None for message in consumer.consume(COUNT, 0.5))
    consumer.close()
    return seen


def _with_kafka_python(bootstrap: str, topic: str, client_id: str) -> int:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id)
    sent = [producer.send(topic, VALUE) for _ in range(COUNT)]
    producer.flush(60)
    assert all(one.succeeded() for one in sent)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id=client_id,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    seen = 0
    for _ in consumer:
        seen += 1
        if seen == COUNT:
            break
    consumer.close()
    return seen


def _with_aiokafka(bootstrap: str, topic: str, client_id: str) -> int:
    async def run() -> int:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client_id) as producer:
            await asyncio.gather(*[await producer.send(topic, VALUE) for _ in range(COUNT)])
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, client_id=client_id, auto_offset_reset="earliest"
        ) as consumer:
            seen = 0
            while seen < COUNT:
                await asyncio.wait_for(consumer.getone(), 60)
                seen += 1
            return seen

    return asyncio.run(run())


@pytest.mark.parametrize("run", [_with_confluent, _with_kafka_python, _with_aiokafka])
def test_a_client_over_its_quotas_gets_everything_through_in_its_time(
    broker_factory: BrokerFactory, unique: str, run: Callable[[str, str, str], int]
) -> None:
    broker = broker_factory(PROPERTIES)
    with RawClient((broker.host, broker.port)) as admin:
        admin.create_topic(unique)
        set_quota(admin, {"client-id": unique}, producer_byte_rate=RATE, consumer_byte_rate=RATE)
        began = time.monotonic()
        assert run(broker.bootstrap, unique, unique) == COUNT
        assert time.monotonic() - began > 2 * SECONDS * 0.8


def test_an_admin_client_of_an_old_version_waits_until_its_quota_allows(
    shared_broker: BrokerProcess, unique: str
) -> None:
    """librdkafka speaks CreateTopics 4, which knows no error for it."""
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        set_quota(client, {"client-id": unique}, controller_mutation_rate=1)
        admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap, "client.id": unique})
        first, second = (f"{unique}-{number}" for number in range(2))
        began = time.monotonic()
        admin.create_topics([NewTopic(first, num_partitions=14)])[first].result(timeout=30)
        admin.create_topics([NewTopic(second, num_partitions=1)])[second].result(timeout=30)
        assert time.monotonic() - began > 2.5
        set_quota(client, {"client-id": unique}, controller_mutation_rate=None)
