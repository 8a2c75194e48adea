"""aiokafka with its defaults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.conformance.samples import (
    FIRST_TIMESTAMP_MS,
    PARTITIONS,
    REBALANCE_TIMEOUT_S,
    SAMPLES,
    TIMESTAMP_STEP_MS,
    Sample,
)
from tests.harness.broker import BrokerProcess
from tests.harness.stored import CODECS, stored_batches, stored_codecs

MakeConsumer = Callable[..., Awaitable[AIOKafkaConsumer]]


@pytest.fixture
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    yield admin
    await admin.close()


@pytest.fixture
async def topic(admin: AIOKafkaAdminClient, unique: str) -> str:
    await admin.create_topics([NewTopic(unique, num_partitions=1, replication_factor=1)])
    return unique


@pytest.fixture
async def make_consumer(bootstrap: str, unique: str) -> AsyncIterator[MakeConsumer]:
    consumers: list[AIOKafkaConsumer] = []

    async def make(*topics: str, **options: Any) -> AIOKafkaConsumer:
        settings = {"bootstrap_servers": bootstrap, "group_id": f"group-{unique}", "auto_offset_reset": "earliest"}
        consumer = AIOKafkaConsumer(*topics, **{**settings, **options})
        consumers.append(consumer)
        await consumer.start()
        return consumer

    yield make
    for consumer in consumers:
        await consumer.stop()


async def produce(bootstrap: str, topic: str, **options: Any) -> list[int]:
    """Send all samples to partition 0 and return the offsets the broker gave them."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        futures = [
            await producer.send(
                topic,
                value=sample.value,
                key=sample.key,
                headers=sample.headers,
                partition=0,
                timestamp_ms=sample.timestamp_ms,
            )
            for sample in SAMPLES
        ]
        return [(await future).offset for future in futures]


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    """Read until `count` records have arrived."""
    async with asyncio.timeout(REBALANCE_TIMEOUT_S):
        return [await consumer.getone() for _ in range(count)]


def as_sample(record: Any) -> Sample:
    return Sample(record.key, record.value, list(record.headers), record.timestamp)


async def until(check: Callable[[], bool]) -> None:
    """Wait for a condition that the client's own tasks bring about and tell nobody of."""
    async with asyncio.timeout(REBALANCE_TIMEOUT_S):
        while not check():  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.02)


async def test_a_topic_is_created_described_and_deleted(admin: AIOKafkaAdminClient, topic: str) -> None:
    (described,) = await admin.describe_topics([topic])
    (partition,) = described["partitions"]
    assert partition["leader"] == 1
    assert partition["replicas"] == partition["isr"] == [1]
    await admin.delete_topics([topic])
    async with asyncio.timeout(REBALANCE_TIMEOUT_S):
        while topic in await admin.list_topics():  # noqa: ASYNC110 - the broker sends no event
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_is_stored_as_sent_and_read_back(
    bootstrap: str, topic: str, make_consumer: MakeConsumer, shared_broker: BrokerProcess, codec: str
) -> None:
    compression = None if codec == "none" else codec
    assert await produce(bootstrap, topic, compression_type=compression) == list(range(100))
    consumer = await make_consumer(group_id=None)
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.seek_to_beginning()
    records = await read(consumer, len(SAMPLES))
    assert [record.offset for record in records] == list(range(100))
    assert [as_sample(record) for record in records] == SAMPLES
    assert stored_codecs(shared_broker.data_directory, topic) == {codec}


async def test_an_idempotent_producer_numbers_its_batches(
    bootstrap: str, topic: str, shared_broker: BrokerProcess
) -> None:
    assert await produce(bootstrap, topic, enable_idempotence=True) == list(range(100))
    stored = stored_batches(shared_broker.data_directory, topic)
    assert all(batch.producer_id >= 0 for batch in stored)
    assert [batch.base_sequence for batch in stored] == [batch.base_offset for batch in stored]


async def test_a_group_resumes_at_its_committed_offset(bootstrap: str, topic: str, make_consumer: MakeConsumer) -> None:
    await produce(bootstrap, topic)
    partition = TopicPartition(topic, 0)
    first = await make_consumer(topic, enable_auto_commit=False)
    assert (await read(first, 30))[-1].offset == 29
    await first.commit({partition: 30})
    await first.stop()
    then = await make_consumer(topic)
    assert [record.offset for record in await read(then, 70)] == list(range(30, 100))
    assert await then.committed(partition) == 30


async def test_offsets_are_found_by_time_and_at_both_ends(
    bootstrap: str, topic: str, make_consumer: MakeConsumer
) -> None:
    await produce(bootstrap, topic)
    consumer = await make_consumer()
    partition = TopicPartition(topic, 0)

    async def offset_at(timestamp_ms: int) -> tuple[int, int] | None:
        found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
        return None if found is None else (found.offset, found.timestamp)

    stamp = FIRST_TIMESTAMP_MS + 41 * TIMESTAMP_STEP_MS
    assert await offset_at(FIRST_TIMESTAMP_MS - 1) == (0, FIRST_TIMESTAMP_MS)
    assert await offset_at(stamp) == (41, stamp)
    assert await offset_at(stamp + 1) == (42, stamp + TIMESTAMP_STEP_MS)
    assert await offset_at(FIRST_TIMESTAMP_MS + 100 * TIMESTAMP_STEP_MS) is None
    assert await consumer.beginning_offsets([partition]) == {partition: 0}
    assert await consumer.end_offsets([partition]) == {partition: 100}


async def test_two_members_share_the_partitions_until_one_leaves(
    four_partitions: str, make_consumer: MakeConsumer
) -> None:
    def assigned(consumer: AIOKafkaConsumer) -> set[int]:
        return {row.partition for row in consumer.assignment()}

    stays = await make_consumer(four_partitions)
    await until(lambda: assigned(stays) == PARTITIONS)
    leaves = await make_consumer(four_partitions)
    await until(
        lambda: len(assigned(stays)) == len(assigned(leaves)) == 2 and assigned(stays) | assigned(leaves) == PARTITIONS
    )
    await leaves.stop()
    await until(lambda: assigned(stays) == PARTITIONS)
