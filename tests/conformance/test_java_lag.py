"""The lag that is exported is the lag that kafka-consumer-groups prints, for each shape that a commit can have."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.raw import RawClient, eventually
from tests.harness.scraped import scrape
from tests.harness.tool_host import Tools

pytestmark = pytest.mark.jvm

RECORDS = 10
COMMITTED = {0: 0, 1: 4, 2: RECORDS, 3: RECORDS + 5, 4: 2}
"""Of 3 beyond the end, of 4 below the log start, of 5 nothing; 6 has an open transaction."""
DELETED_BELOW = 6


@pytest.fixture
def topic(shared_broker: BrokerProcess, unique: str) -> str:
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 7)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "log_level": 0})
    for _ in range(RECORDS):
        for partition in range(6):
            producer.produce(unique, b"x", partition=partition)
    assert producer.flush(30) == 0
    return unique


def consumer_of(shared_broker: BrokerProcess, group: str, **options: str) -> Consumer:
    settings = {"bootstrap.servers": shared_broker.bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer({**settings, "auto.offset.reset": "earliest", "log_level": 0, **options})


def printed(tools: Tools, group: str) -> dict[int, tuple[float, float]]:
    """Give current offset and lag by partition, as Kafka's tool prints them; -1 for what it has none of."""
    found = {}
    for line in tools.run("kafka-consumer-groups", "--describe", "--group", group).splitlines():
        cells = line.split()
        if cells[:1] == [group]:
            current, lag = (-1.0 if cell == "-" else float(cell) for cell in (cells[3], cells[5]))
            found[int(cells[2])] = current, lag
    return found


def exported(broker: BrokerProcess, group: str) -> dict[int, tuple[float, float]]:
    """Give current offset and lag by partition, as they are exported."""
    scraped, found = scrape(broker), {}
    for labels, lag in scraped["kafka_consumergroup_lag"].items():
        if ("consumergroup", group) in labels:
            current = scraped["kafka_consumergroup_current_offset"][labels]
            found[int(dict(labels)["partition"])] = current, lag
    return found


def test_lag_is_what_kafkas_tool_prints(shared_broker: BrokerProcess, tools: Tools, topic: str, unique: str) -> None:
    group = f"simple-{unique}"
    consumer = consumer_of(shared_broker, group)
    consumer.commit(offsets=[TopicPartition(topic, *one) for one in COMMITTED.items()], asynchronous=False)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "transactional.id": unique, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=6)
    assert producer.flush(30) == 0
    consumer.commit(offsets=[TopicPartition(topic, 6, 0)], asynchronous=False)
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        rows = [{"partition_index": 4, "offset": DELETED_BELOW}]
        client.request("delete_records", 2, topics=[{"name": topic, "partitions": rows}], timeout_ms=10_000)
    told = exported(shared_broker, group)
    expected = {0: (0, 10), 1: (4, 6), 2: (10, 0), 3: (15, -5), 4: (2, 8), 5: (-1, -1), 6: (0, 1)}
    assert told == expected
    del told[5]  # the tool leaves out what an empty group has not committed
    assert told == printed(tools, group)
    producer.commit_transaction(30)
    assert exported(shared_broker, group)[6] == printed(tools, group)[6] == (0, 2)
    consumer.close()


@pytest.mark.skipif(reference_wanted(), reason="Kafka has no scheduled topics")
def test_what_a_scheduled_topic_holds_back_is_no_lag(shared_broker: BrokerProcess, tools: Tools, unique: str) -> None:
    with RawClient((shared_broker.host, shared_broker.port)) as client:
        client.create_topic(unique, 2, **{"delivery.mode": "scheduled"})
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "linger.ms": 0, "log_level": 0})
    now_ms = int(time.time() * 1000)
    for number, delay_ms in enumerate([-1_000] * 6 + [3_600_000] * 3 + [-1_000]):
        producer.produce(unique, b"x", partition=0, timestamp=now_ms + delay_ms)
        assert producer.flush(30) == 0, number  # each a batch, and due by itself
    group = f"scheduled-{unique}"
    consumer = consumer_of(shared_broker, group)
    consumer.commit(offsets=[TopicPartition(unique, *one) for one in ((0, 2), (1, 0))], asynchronous=False)
    told = exported(shared_broker, group)
    assert told == printed(tools, group) == {0: (2, 4), 1: (0, 0)}
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_lag_of_a_group_with_members_is_what_kafkas_tool_prints(
    shared_broker: BrokerProcess, tools: Tools, topic: str, unique: str, protocol: str
) -> None:
    group = f"{protocol}-{unique}"
    consumer = consumer_of(shared_broker, group, **{"group.protocol": protocol})
    consumer.subscribe([topic])
    for _ in range(17):
        message = eventually(lambda: consumer.poll(0.2), what="a record")
        consumer.commit(message, asynchronous=False)
    told, shown = exported(shared_broker, group), printed(tools, group)
    assert {n: row for n, row in told.items() if row[0] >= 0} == {n: row for n, row in shown.items() if row[0] >= 0}
    assert len(told) == len(shown) == 7
    assert sum(max(current, 0) for current, _ in told.values()) == 17
    consumer.close()


def test_the_last_commit_is_when_it_was(shared_broker: BrokerProcess, topic: str, unique: str) -> None:
    group = f"dated-{unique}"
    consumer = consumer_of(shared_broker, group)
    before = time.time()
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    after = time.time()
    told = scrape(shared_broker)["odradek_consumer_group_last_commit_timestamp_seconds"]
    assert before - 0.01 <= told[frozenset({("consumergroup", group)})] <= after
    consumer.close()
