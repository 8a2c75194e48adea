"""Produce in transactions: who is let in, when the coordinator is asked, and what each version is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.api.leaders import Leaders
from broker.api.produce import ProduceApi
from broker.api.produce_transactions import flow_of
from broker.partition.partition import Marker
from broker.partition.verification import Flow
from broker.runtime.pools import Pools
from config.views import LogConfig, VerificationConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from protocol.records.builder import build_batch
from storage.types import TopicPartition
from tests.harness.hosted import NOW_MS, Hosted, context, topic_id_of
from tests.harness.verifying import ScriptedVerifier

PID = 7
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ADDED_BEFORE, ABORTABLE, ADDS, BY_ID = 10, 11, 12, 13
VERSIONS = [3, ADDED_BEFORE, ABORTABLE, ADDS, BY_ID]


class Producer:
    """A transactional client of the family, without the wire."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.pools = Pools()
        self.verifier = ScriptedVerifier(hosted.manager)
        self.coordinator = self.verifier.coordinator
        self.api = ProduceApi(
            hosted.manager, hosted.image, Leaders(hosted.image), self.pools, self.verifier, frozenset()
        )
        self.hosted.create("t", partitions=3)

    async def answers(
        self, *parts: tuple[int, bytearray], version: int = ADDS, acks: int = -1, topic: str = "t"
    ) -> list[PartitionProduceResponse]:
        data = [PartitionProduceData(index=index, records=memoryview(batch)) for index, batch in parts]
        topics = [TopicProduceData(name=topic, topic_id=topic_id_of(topic), partition_data=data)]
        request = ProduceRequest(acks=acks, timeout_ms=100, transactional_id="id", topic_data=topics)
        self.context = context(ApiKey.PRODUCE, version)
        response = await self.api.produce(request, self.context)
        return [] if response is None else response.responses[0].partition_responses

    async def code(self, sequence: int = 0, index: int = 0, *, version: int = ADDS, **fields: Any) -> int:
        (answer,) = await self.answers((index, batch(sequence, **fields)), version=version)
        return answer.error_code

    def end(self, index: int = 0) -> int:
        return self.hosted.manager.get("t", index).log.log_end_offset

    def mark(self, index: int = 0, *, epoch: int = 0, version: int = 0) -> None:
        self.hosted.manager.get("t", index).append_marker(Marker(PID, epoch, False, 0, version))


def batch(sequence: int = 0, **fields: Any) -> bytearray:
    told = {"producer_id": PID, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True} | fields
    return build_batch([(None, b"v")], timestamp=NOW_MS, **told)


@pytest.fixture
async def producer(hosted: Hosted) -> AsyncIterator[Producer]:
    producer = Producer(hosted)
    yield producer
    producer.pools.close()


def test_versions_go_about_transactions_in_three_ways() -> None:
    assert [flow_of(version) for version in VERSIONS] == [
        Flow.ADDED_BEFORE,
        Flow.ADDED_BEFORE,
        Flow.ABORTABLE,
        Flow.ADDS,
        Flow.ADDS,
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_coordinator_is_asked_once_a_transaction(producer: Producer, version: int) -> None:
    assert [await producer.code(n, version=version) for n in range(3)] == [0, 0, 0]
    assert [(one.partitions, one.add) for one in producer.coordinator.asked] == [((T0,), version >= ADDS)]
    producer.mark()
    assert await producer.code(3, version=version) == 0
    assert len(producer.coordinator.asked) == 2


@pytest.mark.parametrize(
    ("version", "told"),
    [(ADDED_BEFORE, ErrorCode.INVALID_TXN_STATE), (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_a_partition_that_was_not_added_takes_nothing(producer: Producer, version: int, told: ErrorCode) -> None:
    producer.coordinator.by_partition[T0] = ErrorCode.TRANSACTION_ABORTABLE
    refused, taken = await producer.answers((0, batch()), (1, batch()), version=version)
    assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (told, -1, -1)
    assert (taken.error_code, taken.base_offset) == (0, 0)
    assert (producer.end(0), producer.end(1)) == (0, 1)


@pytest.mark.parametrize("version", [ADDED_BEFORE, ABORTABLE, ADDS])
async def test_what_only_means_not_now_is_told_in_a_way_that_makes_every_client_repeat(
    producer: Producer, version: int
) -> None:
    for code in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ):
        producer.coordinator.codes = [code]
        (answer,) = await producer.answers((0, batch()), version=version)
        told = code if version == ADDS and code is ErrorCode.CONCURRENT_TRANSACTIONS else ErrorCode.NOT_ENOUGH_REPLICAS
        assert answer.error_code == told
        assert told is code or code.name in (answer.error_message or "")
    producer.coordinator.codes = []
    assert await producer.code(version=version) == 0


async def test_a_fenced_producer_hears_of_its_epoch(producer: Producer) -> None:
    producer.coordinator.codes = [ErrorCode.PRODUCER_FENCED]
    assert await producer.code() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end() == 0


async def test_two_producers_in_one_request_are_refused_everywhere(producer: Producer) -> None:
    for other in (batch(producer_id=PID + 1), batch(producer_epoch=1)):
        answers = await producer.answers((0, batch()), (1, other))
        assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert not producer.coordinator.asked and producer.end(0) == producer.end(1) == 0


async def test_a_plain_batch_in_an_open_transaction_is_refused(producer: Producer) -> None:
    assert await producer.code() == 0
    assert await producer.code(1, is_transactional=False) == ErrorCode.INVALID_TXN_STATE
    assert await producer.code(1) == 0


async def test_an_abort_while_the_coordinator_is_asked_keeps_the_batch_out(producer: Producer) -> None:
    producer.coordinator.stall = asyncio.Event()
    sending = asyncio.create_task(producer.code(version=ADDED_BEFORE))
    await asyncio.sleep(0)
    assert len(producer.coordinator.asked) == 1
    producer.mark(epoch=0)
    producer.coordinator.stall.set()
    assert await sending == ErrorCode.INVALID_TXN_STATE
    log = producer.hosted.manager.get("t", 0).log
    assert (log.log_end_offset, log.last_stable_offset) == (1, 1)


async def test_the_frame_may_be_reused_while_the_coordinator_is_asked(producer: Producer) -> None:
    producer.coordinator.stall = asyncio.Event()
    frame = batch()
    sending = asyncio.create_task(producer.answers((0, frame)))
    await asyncio.sleep(0)
    assert producer.context.outlives_peer
    frame[:] = bytes(len(frame))
    producer.coordinator.stall.set()
    (answer,) = await sending
    assert answer.error_code == 0


async def test_a_move_while_the_coordinator_is_asked_loses_nothing(producer: Producer) -> None:
    partition = producer.hosted.manager.get("t", 0)
    producer.coordinator.stall = asyncio.Event()
    sending = asyncio.create_task(producer.code())
    await asyncio.sleep(0)
    after = producer.hosted.manager.get("t", 2).log  # as empty as the one before
    partition.hold()
    partition.serve(after)
    partition.release()
    producer.coordinator.stall.set()
    assert await sending == 0
    assert after.log_end_offset == 1 and after.last_stable_offset == 0


async def test_a_resent_batch_of_an_ended_transaction_is_a_duplicate(producer: Producer) -> None:
    assert await producer.code(version=ADDED_BEFORE) == 0
    producer.mark()
    (answer,) = await producer.answers((0, batch()), version=ADDED_BEFORE)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert producer.end() == 2


async def test_sequences_of_an_unknown_producer_begin_anywhere_but_where_epochs_are_its_own(producer: Producer) -> None:
    assert await producer.code(5, 0, version=ABORTABLE) == 0
    assert await producer.code(5, 1, version=ADDS) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.code(0, 1, version=ADDS) == 0


async def test_switched_off_older_versions_append_unasked(producer: Producer) -> None:
    producer.verifier.settings = VerificationConfig(partition_verification_enable=False)
    assert await producer.code(version=ADDED_BEFORE) == 0
    assert not producer.coordinator.asked
    assert await producer.code(0, 1, version=ADDS) == 0
    assert len(producer.coordinator.asked) == 1


async def test_a_failure_without_an_answer_ends_the_connection(producer: Producer) -> None:
    producer.coordinator.codes = [ErrorCode.TRANSACTION_ABORTABLE]
    assert await producer.answers((0, batch()), acks=0) == []
    assert producer.context.close_after


async def test_a_missing_partition_is_named_and_not_asked_for(producer: Producer) -> None:
    gone, taken = await producer.answers((9, batch()), (0, batch()))
    assert (gone.error_code, taken.error_code) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert [one.partitions for one in producer.coordinator.asked] == [(T0,)]


async def test_damaged_batches_are_refused_by_the_log(producer: Producer) -> None:
    for position in (16, 20):  # magic, CRC
        damaged = batch()
        damaged[position] ^= 1
        (answer,) = await producer.answers((0, damaged))
        assert answer.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert producer.end() == 0


async def test_a_batch_that_is_checked_beside_the_loop_needs_its_verification_too(producer: Producer) -> None:
    heavy = build_batch(
        [(None, bytes(8000))], timestamp=NOW_MS, codec=1, producer_id=PID, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    producer.hosted.configure("t", LogConfig(compression_type="zstd"))
    (answer,) = await producer.answers((0, heavy))
    assert answer.error_code == 0
    producer.coordinator.codes = [ErrorCode.TRANSACTION_ABORTABLE]
    (answer,) = await producer.answers((1, heavy))
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE


async def test_a_batch_of_the_next_transaction_waits_for_the_end_of_one_in_the_same_epoch(producer: Producer) -> None:
    assert await producer.code(version=ADDED_BEFORE) == 0
    producer.verifier.ending.add("id")
    assert await producer.code(1) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.end() == 1

    def complete() -> None:
        producer.mark()
        producer.verifier.ending.clear()

    producer.verifier.on_pause = complete
    producer.coordinator.asked.clear()
    assert await producer.code(1) == 0
    assert [one.add for one in producer.coordinator.asked] == [True]
    assert producer.end() == 3
