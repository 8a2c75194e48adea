"""kafka-python with its defaults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

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

MakeConsumer = Callable[..., KafkaConsumer]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


@pytest.fixture
def topic(admin: KafkaAdminClient, unique: str) -> str:
    admin.create_topics([NewTopic(unique, num_partitions=1, replication_factor=1)])
    return unique


@pytest.fixture
def make_consumer(bootstrap: str, unique: str) -> Iterator[MakeConsumer]:
    consumers: list[KafkaConsumer] = []

    def make(*topics: str, **options: Any) -> KafkaConsumer:
        settings = {"bootstrap_servers": bootstrap, "group_id": f"group-{unique}", "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(*topics, **{**settings, **options})
        consumers.append(consumer)
        for topic in topics:
            # A leader that joins before its first metadata answer assigns nothing, for good: the client's own race.
            consumer.partitions_for_topic(topic)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


def produce(bootstrap: str, topic: str, **options: Any) -> list[int]:
    """Send all samples to partition 0 and return the offsets the broker gave them."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **options)
    futures = [
        producer.send(
            topic,
            value=sample.value,
            key=sample.key,
            headers=sample.headers,
            partition=0,
            timestamp_ms=sample.timestamp_ms,
        )
        for sample in SAMPLES
    ]
    offsets = [future.get(timeout=20).offset for future in futures]
    producer.close()
    return offsets


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    """Poll until `count` records have arrived."""
    records: list[Any] = []

    def poll() -> bool:
        for some in consumer.poll(timeout_ms=200, max_records=count - len(records)).values():
            records.extend(some)
        return len(records) == count

    eventually(poll, within_s=REBALANCE_TIMEOUT_S)
    return records


def as_sample(record: Any) -> Sample:
    return Sample(record.key, record.value, list(record.headers), record.timestamp)


def test_a_topic_is_created_described_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    (described,) = admin.describe_topics([topic])
    (partition,) = described["partitions"]
    assert partition["leader_id"] == 1
    assert partition["replica_nodes"] == partition["isr_nodes"] == [1]
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics())


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(
    bootstrap: str, topic: str, make_consumer: MakeConsumer, shared_broker: BrokerProcess, codec: str
) -> None:
    compression = None if codec == "none" else codec
    assert produce(bootstrap, topic, compression_type=compression) == list(range(100))
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    records = read(consumer, len(SAMPLES))
    assert [record.offset for record in records] == list(range(100))
    assert [as_sample(record) for record in records] == SAMPLES
    assert stored_codecs(shared_broker.data_directory, topic) == {codec}


def test_an_idempotent_producer_numbers_its_batches(bootstrap: str, topic: str, shared_broker: BrokerProcess) -> None:
    assert produce(bootstrap, topic, enable_idempotence=True) == list(range(100))
    stored = stored_batches(shared_broker.data_directory, topic)
    assert all(batch.producer_id >= 0 for batch in stored)
    assert [batch.base_sequence for batch in stored] == [batch.base_offset for batch in stored]


def test_a_group_resumes_at_its_committed_offset(bootstrap: str, topic: str, make_consumer: MakeConsumer) -> None:
    produce(bootstrap, topic)
    partition = TopicPartition(topic, 0)
    first = make_consumer(topic, enable_auto_commit=False)
    assert read(first, 30)[-1].offset == 29
    first.commit({partition: OffsetAndMetadata(30, "as far as this", -1)})
    first.close()
    then = make_consumer(topic)
    assert [record.offset for record in read(then, 70)] == list(range(30, 100))
    assert then.committed(partition, metadata=True).metadata == "as far as this"


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str, make_consumer: MakeConsumer) -> None:
    produce(bootstrap, topic)
    consumer = make_consumer()
    partition = TopicPartition(topic, 0)

    def offset_at(timestamp_ms: int) -> tuple[int, int] | None:
        found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        return None if found is None else (found.offset, found.timestamp)

    stamp = FIRST_TIMESTAMP_MS + 41 * TIMESTAMP_STEP_MS
    assert offset_at(FIRST_TIMESTAMP_MS - 1) == (0, FIRST_TIMESTAMP_MS)
    assert offset_at(stamp) == (41, stamp)
    assert offset_at(stamp + 1) == (42, stamp + TIMESTAMP_STEP_MS)
    assert offset_at(FIRST_TIMESTAMP_MS + 100 * TIMESTAMP_STEP_MS) is None
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 100}


class Polled:
    """A consumer that polls all the time: one that pauses does not look at a join that is answered meanwhile, and joins
    again, for ever if the other member does so too.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.assigned: set[int] = set()
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_leaving.is_set():
            self._consumer.poll(timeout_ms=500)
            self.assigned = {row.partition for row in self._consumer.assignment()}

    def leave(self) -> None:
        """Stop to poll, and leave the group."""
        self._is_leaving.set()
        self._thread.join()
        self._consumer.close()


def test_two_members_share_the_partitions_until_one_leaves(four_partitions: str, make_consumer: MakeConsumer) -> None:
    stays = Polled(make_consumer(four_partitions))
    eventually(lambda: stays.assigned == PARTITIONS, within_s=REBALANCE_TIMEOUT_S)
    leaves = Polled(make_consumer(four_partitions))

    def is_shared() -> bool:
        mine, theirs = stays.assigned, leaves.assigned
        return len(mine) == len(theirs) == 2 and mine | theirs == PARTITIONS

    eventually(is_shared, within_s=REBALANCE_TIMEOUT_S)
    leaves.leave()
    eventually(lambda: stays.assigned == PARTITIONS, within_s=REBALANCE_TIMEOUT_S)
    stays.leave()


def test_partitions_are_added(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_partitions({topic: 3})
    eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3)
