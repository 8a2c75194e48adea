"""Clients of today read segments that brokers before 0.11 wrote, out of the directory of a broker that was stopped."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from tests.harness.batches import simple
from tests.harness.broker import BrokerFactory, BrokerProcess
from tests.harness.disk import folder
from tests.harness.legacy_sets import APPENDED, BASE_OFFSET, GOLDEN, RECORDS, TIMES
from tests.harness.raw import RawClient

NEXT = 1_700_000_020_000


def named(key: tuple[int, str, bool]) -> str:
    """Give the topic that holds a golden set."""
    magic, codec, has_append_time = key
    return f"v{magic}-{codec}-{has_append_time}"


def times(key: tuple[int, str, bool]) -> list[int]:
    """Give the timestamps that the set's records report."""
    magic, _, has_append_time = key
    return [-1] * 3 if not magic else [APPENDED] * 3 if has_append_time else list(TIMES)


@pytest.fixture
def old_broker(broker_factory: BrokerFactory) -> BrokerProcess:
    """Give a broker over logs whose only segment is a golden set, followed by one batch of today."""
    broker = broker_factory()
    with RawClient((broker.host, broker.port)) as client:
        for key in GOLDEN:
            client.create_topic(named(key))
    broker.kill()
    for key, content in GOLDEN.items():
        directory = folder(broker, named(key))
        for path in directory.glob("0*"):
            path.unlink()
        (directory / f"{BASE_OFFSET:020}.log").write_bytes(content)
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        for key in GOLDEN:
            assert client.append(named(key), simple("today", timestamp=NEXT)) == 103
    return broker


def test_librdkafka_reads_and_searches_them(old_broker: BrokerProcess) -> None:
    consumer = Consumer({"bootstrap.servers": old_broker.bootstrap, "group.id": "g", "check.crcs": True})
    try:
        for key in GOLDEN:
            consumer.assign([TopicPartition(named(key), 0, 100)])
            messages = consumer.consume(4, 10)
            assert [message.error() for message in messages] == [None] * 4
            assert [message.offset() for message in messages] == [100, 101, 102, 103], key
            found = [(message.key(), message.value()) for message in messages[:3]]
            assert found == list(RECORDS), key
            assert [message.timestamp()[1] for message in messages[:3] if key[0]] == times(key)[: 3 * key[0]], key
            (hit,) = consumer.offsets_for_times([TopicPartition(named(key), 0, TIMES[0] + 1)], timeout=10)
            later = [100 + at for at, one in enumerate(times(key)) if one > TIMES[0]]
            assert hit.offset == (later[0] if later else 103), key
    finally:
        consumer.close()


def test_kafka_python_reads_and_searches_them(old_broker: BrokerProcess) -> None:
    consumer = KafkaConsumer(bootstrap_servers=old_broker.bootstrap, auto_offset_reset="earliest")
    try:
        for key in GOLDEN:
            partition = KafkaPythonPartition(named(key), 0)
            consumer.assign([partition])
            consumer.seek(partition, 101)
            found = []
            deadline = time.monotonic() + 10
            while len(found) < 3 and time.monotonic() < deadline:
                found += consumer.poll(timeout_ms=500).get(partition, [])
            assert [record.offset for record in found] == [101, 102, 103], key
            assert [(record.key, record.value) for record in found[:2]] == list(RECORDS[1:]), key
            hit = consumer.offsets_for_times({partition: APPENDED})[partition]
            assert hit.offset == (100 if key[2] else 103), key
    finally:
        consumer.close()
