"""The lag of groups through a real broker: what is exported is what consumers themselves say, and goes with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.offsets import commit
from tests.harness.raw import RawClient, eventually
from tests.harness.scraped import scrape

pytestmark = pytest.mark.skipif(reference_wanted(), reason="scrapes the HTTP page")

PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
PARTITIONS, PER_PARTITION = 2, 30
AGE_SECONDS = 600

OfGroup = Callable[[str], dict[tuple[str, ...], float]]


@pytest.fixture
def topic(broker: BrokerProcess, client: RawClient, fresh: Callable[[str], str]) -> str:
    """Give a topic whose records are said to have been made ten minutes ago, a second between them."""
    name = fresh("topic")
    client.create_topic(name, PARTITIONS)
    first_ms = int(time.time() * 1000) - AGE_SECONDS * 1000
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
    for number in range(PER_PARTITION):
        for partition in range(PARTITIONS):
            producer.send(name, b"x", partition=partition, timestamp_ms=first_ms + number * 1000)
        producer.flush()
    producer.close()
    return name


@pytest.fixture
def consumer(broker: BrokerProcess, fresh: Callable[[str], str]) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=fresh("group"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=7,
    )
    yield consumer
    consumer.close()


def of_group(broker: BrokerProcess, group: str) -> OfGroup:
    """Scrape, and give what is exported of a group: by topic, partition and so on, in the order of the names."""
    scraped = scrape(broker)

    def series(name: str) -> dict[tuple[str, ...], float]:
        found = {}
        for labels, value in scraped.get(name, {}).items():
            by_name = dict(labels)
            if by_name.pop("consumergroup", None) == group:
                found[tuple(by_name[label] for label in sorted(by_name, reverse=True))] = value
        return found

    return series


def test_lag_is_what_the_consumers_positions_say(broker: BrokerProcess, topic: str, consumer: KafkaConsumer) -> None:
    group = consumer.config["group_id"]
    consumer.subscribe([topic])
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    read = 0
    while read < 2 * PER_PARTITION:
        read += sum(map(len, consumer.poll(500).values()))
        consumer.commit()
        positions = {partition: consumer.position(partition) for partition in partitions}
        ends = consumer.end_offsets(partitions)
        exported = of_group(broker, group)
        lags = {(topic, str(one.partition)): ends[one] - positions[one] for one in partitions}
        assert exported("kafka_consumergroup_lag") == lags
        assert exported("kafka_consumergroup_lag_sum") == {(topic,): sum(lags.values())}
        assert exported("odradek_consumer_group_max_lag") == {(): max(lags.values())}
        assert exported("kafka_consumergroup_current_offset_sum") == {(topic,): sum(positions.values())}
        assert exported("kafka_consumergroup_members") == {(): 1}
        seconds = exported("odradek_consumer_group_lag_seconds")
        for one in partitions:
            waiting = seconds[topic, str(one.partition)]
            if lags[topic, str(one.partition)]:
                assert AGE_SECONDS - positions[one] <= waiting < AGE_SECONDS - positions[one] + 60
            else:
                assert waiting == 0
        assert exported("odradek_consumer_group_max_lag_seconds") == {(): max(seconds.values())}


def test_a_group_that_was_left_keeps_its_lag_until_it_is_deleted(
    broker: BrokerProcess, client: RawClient, topic: str, consumer: KafkaConsumer
) -> None:
    group = consumer.config["group_id"]
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(200), what="records")
    consumer.commit()
    consumer.close()
    exported = of_group(broker, group)
    assert exported("kafka_consumergroup_members") == {(): 0}
    assert exported("odradek_consumer_group_state") == {("classic", "Empty"): 1}
    assert sum(exported("kafka_consumergroup_lag").values()) == 2 * PER_PARTITION - 7
    assert min(exported("odradek_consumer_group_last_commit_timestamp_seconds").values()) > time.time() - 60
    answer = client.request("delete_groups", 2, groups_names=[group])
    assert answer.results[0].error_code == 0
    exported = of_group(broker, group)
    for name in ("kafka_consumergroup_members", "kafka_consumergroup_lag", "odradek_consumer_group_lag_seconds"):
        assert exported(name) == {}


def test_a_deleted_topic_takes_its_series_with_it(
    broker: BrokerProcess, client: RawClient, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    commit(client, group, topic, 4)
    exported = of_group(broker, group)
    assert exported("kafka_consumergroup_lag") == {(topic, "0"): PER_PARTITION - 4, (topic, "1"): -1}
    assert f'topic="{topic}"' in broker.http_get("/metrics")
    client.delete_topic(topic)
    assert f'topic="{topic}"' not in broker.http_get("/metrics")


def test_a_group_of_the_consumer_protocol_is_shown_as_one_of_the_classic_is(
    broker: BrokerProcess, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    for _ in range(5):
        message = eventually(lambda: consumer.poll(0.2), what="a record")
    consumer.commit(message, asynchronous=False)
    exported = of_group(broker, group)
    committed = {(topic, str(message.partition())): message.offset() + 1.0}
    committed[topic, str(1 - message.partition())] = -1
    assert exported("kafka_consumergroup_current_offset") == committed
    assert exported("kafka_consumergroup_members") == {(): 1}
    assert exported("odradek_consumer_group_state") == {("consumer", "Stable"): 1}
    assert min(exported("odradek_consumer_group_epoch").values()) >= 2
    consumer.close()
    assert of_group(broker, group)("kafka_consumergroup_members") == {(): 0}


def test_partitions_are_shown_as_clients_find_them(broker: BrokerProcess, topic: str, consumer: KafkaConsumer) -> None:
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    scraped = scrape(broker)

    def of_topic(name: str) -> dict[int, float]:
        series = scraped[f"kafka_topic_partition_{name}"].items()
        return {int(dict(labels)["partition"]): value for labels, value in series if dict(labels)["topic"] == topic}

    ends, starts = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
    assert of_topic("current_offset") == {one.partition: ends[one] for one in partitions}
    assert of_topic("oldest_offset") == {one.partition: starts[one] for one in partitions}
    oldest = scraped["odradek_log_oldest_timestamp_seconds"]
    ages = [time.time() - oldest[frozenset({("topic", topic), ("partition", str(n))})] for n in range(PARTITIONS)]
    assert all(AGE_SECONDS <= age < AGE_SECONDS + 60 for age in ages)
    assert scraped["kafka_brokers"] == {frozenset(): 1}
    [labels] = scraped["kafka_broker_info"]
    assert dict(labels)["address"] == broker.bootstrap
