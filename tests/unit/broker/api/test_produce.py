"""Produce over real logs: where batches go, what is refused, and that partitions stand alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.api.leaders import Leaders
from broker.api.produce import ProduceApi
from broker.api.route import RequestContext
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records.builder import build_batch
from protocol.records.record import iter_records
from tests.harness.hosted import NODE_ID, NOW_MS, OTHER_ID, Hosted, context, topic_id_of
from tests.harness.verifying import ScriptedVerifier

BY_NAME = 12
BY_ID = 13
GZIP = 1


class Producer:
    """A client of the family, without the wire."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.pools = Pools()
        self.verifier = ScriptedVerifier(hosted.manager)
        self.api = ProduceApi(
            hosted.manager,
            hosted.image,
            Leaders(hosted.image),
            self.pools,
            self.verifier,
            frozenset({"__consumer_offsets"}),
        )
        self.context: RequestContext

    async def produce(
        self,
        *batches: tuple[str, int, bytes | None],
        acks: int = -1,
        version: int = BY_NAME,
        transactional_id: str | None = None,
        client_id: str = "test",
    ) -> ProduceResponse | None:
        topics = [
            TopicProduceData(
                name=name,
                topic_id=topic_id_of(name),
                partition_data=[
                    PartitionProduceData(index=index, records=None if batch is None else memoryview(batch))
                ],
            )
            for name, index, batch in batches
        ]
        request = ProduceRequest(acks=acks, timeout_ms=100, transactional_id=transactional_id, topic_data=topics)
        self.context = context(ApiKey.PRODUCE, version, client_id=client_id)
        return await self.api.produce(request, self.context)

    async def answers(self, *batches: tuple[str, int, bytes | None], **options: Any) -> list[PartitionProduceResponse]:
        response = await self.produce(*batches, **options)
        assert response is not None
        return [answer for topic in response.responses for answer in topic.partition_responses]

    async def answer(self, batch: bytes | None, topic: str = "t", index: int = 0, **options: Any) -> Any:
        (answer,) = await self.answers((topic, index, batch), **options)
        return answer


@pytest.fixture
async def producer(hosted: Hosted) -> AsyncIterator[Producer]:
    producer = Producer(hosted)
    yield producer
    producer.pools.close()


def batch(*values: bytes, **options: Any) -> bytearray:
    return build_batch([(None, value) for value in values], timestamp=NOW_MS, **options)


def values_in(partition: Partition) -> list[bytes | None]:
    log = partition.log
    found = log.read(log.log_start_offset, max_bytes=1 << 20, bound=log.log_end_offset, min_one_batch=True)
    assert found.region is not None
    data = memoryview(found.region.read())
    found.region.release()
    values: list[bytes | None] = []
    while data:
        size = int.from_bytes(data[8:12], "big") + 12
        values += [None if record.value is None else bytes(record.value) for record in iter_records(data[:size])]
        data = data[size:]
    return values


async def test_batches_get_dense_offsets_and_are_readable_at_once(producer: Producer) -> None:
    partition = producer.hosted.create("t")
    first = await producer.answer(batch(b"a", b"b"))
    second = await producer.answer(batch(b"c"))
    assert (first.error_code, first.base_offset, first.log_start_offset, first.log_append_time_ms) == (0, 0, 0, -1)
    assert second.base_offset == 2
    assert partition.log.high_watermark == 3
    assert values_in(partition) == [b"a", b"b", b"c"]


async def test_log_append_time_is_told(producer: Producer) -> None:
    producer.hosted.create("t", config=LogConfig(message_timestamp_type="LogAppendTime"))
    assert (await producer.answer(batch(b"a"))).log_append_time_ms == NOW_MS


async def test_one_partition_that_fails_does_not_fail_its_neighbours(producer: Producer) -> None:
    producer.hosted.create("t")
    damaged = batch(b"x")
    damaged[-1] ^= 1
    answers = await producer.answers(("t", 0, damaged), ("t", 0, batch(b"y")), ("t", 9, batch(b"z")))
    assert [answer.error_code for answer in answers] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [answer.base_offset for answer in answers] == [-1, 0, -1]


async def test_topic_ids_name_topics_from_version_13_on(producer: Producer) -> None:
    producer.hosted.create("t")
    assert (await producer.answer(batch(b"a"), version=BY_ID)).base_offset == 0
    assert (await producer.answer(batch(b"a"), "unknown", version=BY_ID)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [-2, 2])
async def test_acks_that_mean_nothing_are_refused(producer: Producer, acks: int) -> None:
    partition = producer.hosted.create("t")
    assert (await producer.answer(batch(b"a"), acks=acks)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert partition.log.log_end_offset == 0


async def test_acks_0_is_never_answered_and_a_failure_ends_the_connection(producer: Producer) -> None:
    partition = producer.hosted.create("t")
    assert await producer.produce(("t", 0, batch(b"a")), acks=0) is None
    assert partition.log.log_end_offset == 1
    assert not producer.context.close_after
    assert await producer.produce(("t", 0, batch(b"a")), ("u", 0, batch(b"a")), acks=0) is None
    assert producer.context.close_after
    producer.hosted.create("__consumer_offsets")
    assert await producer.produce(("__consumer_offsets", 0, batch(b"a")), acks=0) is None
    assert producer.context.close_after


async def test_an_isr_below_the_minimum_refuses_acks_all_alone(producer: Producer) -> None:
    two = LogConfig(min_insync_replicas=2)
    partition = producer.hosted.create("t", config=two, replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    refused = await producer.answer(batch(b"a"))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    assert (await producer.answer(batch(b"a"), acks=1)).base_offset == 0


async def test_a_partition_led_elsewhere_names_its_leader(producer: Producer) -> None:
    producer.hosted.create("t", leader=OTHER_ID, epoch=5, isr=(OTHER_ID,), replicas=(NODE_ID, OTHER_ID))
    response = await producer.produce(("t", 0, batch(b"a")))
    assert response is not None
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (OTHER_ID, 5)
    assert [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints] == [
        (OTHER_ID, "host2", 9002, "rack2")
    ]


async def test_before_version_10_nobody_is_named(producer: Producer) -> None:
    producer.hosted.create("t", leader=OTHER_ID, replicas=(NODE_ID, OTHER_ID))
    response = await producer.produce(("t", 0, batch(b"a")), version=9)
    assert response is not None and not response.node_endpoints


async def test_internal_topics_take_records_from_the_admin_client_alone(producer: Producer) -> None:
    producer.hosted.create("__consumer_offsets")
    refused = await producer.answer(batch(b"a"), "__consumer_offsets")
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    taken = await producer.answer(batch(b"a"), "__consumer_offsets", client_id="__admin_client")
    assert taken.base_offset == 0


async def test_missing_records_and_fragments_are_refused(producer: Producer) -> None:
    producer.hosted.create("t")
    assert (await producer.answer(None)).error_code == ErrorCode.INVALID_RECORD
    for fragment in (b"", b"\x00" * 30):
        assert (await producer.answer(fragment)).error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


async def test_a_refused_record_is_named(producer: Producer) -> None:
    producer.hosted.create("t", config=LogConfig(cleanup_policy=frozenset({"compact"})))
    answer = await producer.answer(build_batch([(b"k", b"v"), (None, b"v")], timestamp=NOW_MS))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]


async def test_a_batch_above_the_topics_limit_is_too_large(producer: Producer) -> None:
    producer.hosted.create("t", config=LogConfig(max_message_bytes=200))
    assert (await producer.answer(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_idempotent_producers_get_duplicates_answered_and_gaps_refused(producer: Producer) -> None:
    partition = producer.hosted.create("t")

    def numbered(sequence: int) -> bytearray:
        return batch(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence)

    assert [(await producer.answer(numbered(n))).base_offset for n in (0, 1, 2)] == [0, 1, 2]
    again = await producer.answer(numbered(1))
    assert (again.error_code, again.base_offset) == (0, 1)
    assert partition.log.log_end_offset == 3
    assert partition.stats.messages_in == 3
    assert (await producer.answer(numbered(9))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_transactional_batches_need_a_transactional_id(producer: Producer) -> None:
    partition = producer.hosted.create("t")
    part = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    assert (await producer.answer(batch(b"v", **part))).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert partition.log.log_end_offset == 0 and not producer.verifier.coordinator.asked


async def test_batches_that_wait_behind_one_checked_elsewhere_survive_the_reuse_of_their_buffer(
    producer: Producer,
) -> None:
    """The frame lies in a buffer that is overwritten as soon as the handler suspends for the first batch."""
    compressed = producer.hosted.create("compressed")
    plain = producer.hosted.create("plain")
    noise = bytes(range(256)) * 40
    first = batch(*(noise[n:] + bytes([n]) for n in range(50)), codec=GZIP)
    buffer = bytearray(first + batch(b"precious"))
    view = memoryview(buffer)
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=view[start:end])])
        for name, start, end in (("compressed", 0, len(first)), ("plain", len(first), len(buffer)))
    ]
    request = ProduceRequest(acks=-1, topic_data=topics)
    answering = asyncio.ensure_future(producer.api.produce(request, context(ApiKey.PRODUCE, BY_NAME)))
    await asyncio.sleep(0)
    assert not answering.done(), "a compressed batch of this size is checked beside the loop"
    buffer[:] = bytes(len(buffer))
    response = await asyncio.wait_for(answering, 10)
    assert response is not None
    assert [topic.partition_responses[0].error_code for topic in response.responses] == [0, 0]
    assert values_in(plain) == [b"precious"]
    assert len(values_in(compressed)) == 50
