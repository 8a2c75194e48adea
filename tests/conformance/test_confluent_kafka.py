"""confluent-kafka (a current librdkafka) with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.samples import (
    FIRST_TIMESTAMP_MS,
    PARTITIONS,
    REBALANCE_TIMEOUT_S,
    SAMPLES,
    TIMESTAMP_STEP_MS,
    Sample,
)
from tests.harness.broker import BrokerProcess
from tests.harness.raw import eventually
from tests.harness.stored import CODECS, stored_batches, stored_codecs

MakeConsumer = Callable[..., Consumer]


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient, unique: str) -> str:
    admin.create_topics([NewTopic(unique, num_partitions=1)])[unique].result(timeout=10)
    return unique


@pytest.fixture
def make_consumer(bootstrap: str, unique: str) -> Iterator[MakeConsumer]:
    consumers: list[Consumer] = []

    def make(**options: Any) -> Consumer:
        settings = {"bootstrap.servers": bootstrap, "group.id": f"group-{unique}", "auto.offset.reset": "earliest"}
        consumers.append(Consumer({**settings, **{key.replace("_", "."): value for key, value in options.items()}}))
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close()


def produce(bootstrap: str, topic: str, **options: Any) -> list[int]:
    """Send all samples to partition 0 and return the offsets the broker gave them."""
    offsets: list[int] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in options.items()}})
    for sample in SAMPLES:
        producer.produce(
            topic,
            key=sample.key,
            value=sample.value,
            headers=list(sample.headers),
            timestamp=sample.timestamp_ms,
            partition=0,
            on_delivery=delivered,
        )
    assert producer.flush(20) == 0
    return offsets


def read(consumer: Consumer, count: int) -> list[Message]:
    """Poll until `count` messages have arrived."""
    messages: list[Message] = []

    def poll() -> bool:
        for message in consumer.consume(count - len(messages), timeout=0.2):
            assert message.error() is None, message.error()
            messages.append(message)
        return len(messages) == count

    eventually(poll, within_s=REBALANCE_TIMEOUT_S)
    return messages


def as_sample(message: Message) -> Sample:
    return Sample(message.key(), message.value(), list(message.headers() or []), message.timestamp()[1])


def test_a_topic_is_created_described_and_deleted(admin: AdminClient, topic: str) -> None:
    described = eventually(lambda: admin.list_topics(timeout=10).topics.get(topic))
    assert [
        (partition.id, partition.leader, partition.replicas, partition.isrs)
        for partition in described.partitions.values()
    ] == [(0, 1, [1], [1])]
    admin.delete_topics([topic])[topic].result(timeout=10)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(
    bootstrap: str, topic: str, make_consumer: MakeConsumer, shared_broker: BrokerProcess, codec: str
) -> None:
    assert produce(bootstrap, topic, compression_type=codec) == list(range(100))
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    messages = read(consumer, len(SAMPLES))
    assert [message.offset() for message in messages] == list(range(100))
    assert [as_sample(message) for message in messages] == SAMPLES
    assert stored_codecs(shared_broker.data_directory, topic) == {codec}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_all_records(
    bootstrap: str, topic: str, make_consumer: MakeConsumer, acks: str
) -> None:
    produce(bootstrap, topic, acks=acks)
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert [as_sample(message) for message in read(consumer, len(SAMPLES))] == SAMPLES


def test_an_idempotent_producer_numbers_its_batches(bootstrap: str, topic: str, shared_broker: BrokerProcess) -> None:
    assert produce(bootstrap, topic, enable_idempotence=True) == list(range(100))
    stored = stored_batches(shared_broker.data_directory, topic)
    assert {batch.producer_epoch for batch in stored} == {0}
    assert all(batch.producer_id >= 0 for batch in stored)
    assert [batch.base_sequence for batch in stored] == [batch.base_offset for batch in stored]


def test_a_group_resumes_at_its_committed_offset(bootstrap: str, topic: str, make_consumer: MakeConsumer) -> None:
    produce(bootstrap, topic)
    first = make_consumer(enable_auto_commit=False)
    first.subscribe([topic])
    last_read = read(first, 30)[-1]
    assert last_read.offset() == 29
    committed = first.commit(message=last_read, asynchronous=False)
    assert committed is not None
    assert [(row.partition, row.offset, row.error) for row in committed] == [(0, 30, None)]
    first.close()
    then = make_consumer()
    then.subscribe([topic])
    assert [message.offset() for message in read(then, 70)] == list(range(30, 100))
    assert then.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == 30


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str, make_consumer: MakeConsumer) -> None:
    produce(bootstrap, topic)
    consumer = make_consumer()

    def offset_at(timestamp_ms: int) -> int:
        return int(consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=10)[0].offset)

    assert offset_at(FIRST_TIMESTAMP_MS - 1) == 0
    assert offset_at(FIRST_TIMESTAMP_MS + 41 * TIMESTAMP_STEP_MS) == 41
    assert offset_at(FIRST_TIMESTAMP_MS + 41 * TIMESTAMP_STEP_MS + 1) == 42
    assert offset_at(FIRST_TIMESTAMP_MS + 100 * TIMESTAMP_STEP_MS) == -1
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 100)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_members_share_the_partitions_until_one_leaves(
    four_partitions: str, make_consumer: MakeConsumer, strategy: str
) -> None:
    stays = make_consumer(partition_assignment_strategy=strategy)
    leaves = make_consumer(partition_assignment_strategy=strategy)

    def assigned(consumer: Consumer) -> set[int]:
        consumer.poll(0.05)
        return {row.partition for row in consumer.assignment()}

    stays.subscribe([four_partitions])
    eventually(lambda: assigned(stays) == PARTITIONS, within_s=REBALANCE_TIMEOUT_S)
    leaves.subscribe([four_partitions])

    def is_shared() -> bool:
        mine, theirs = assigned(stays), assigned(leaves)
        return len(mine) == len(theirs) == 2 and mine | theirs == PARTITIONS

    eventually(is_shared, within_s=REBALANCE_TIMEOUT_S)
    leaves.close()
    eventually(lambda: assigned(stays) == PARTITIONS, within_s=REBALANCE_TIMEOUT_S)


def test_a_group_is_listed_and_described(
    admin: AdminClient, bootstrap: str, topic: str, unique: str, make_consumer: MakeConsumer
) -> None:
    produce(bootstrap, topic)
    consumer = make_consumer()
    consumer.subscribe([topic])
    read(consumer, 1)
    group = f"group-{unique}"
    listed = {row.group_id: row.state.name for row in admin.list_consumer_groups().result(timeout=10).valid}
    assert listed[group] == "STABLE"
    described = admin.describe_consumer_groups([group])[group].result(timeout=10)
    assert described.state.name == "STABLE"
    assert [
        [(row.topic, row.partition) for row in member.assignment.topic_partitions] for member in described.members
    ] == [[(topic, 0)]]
