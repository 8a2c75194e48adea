"""Fetch and ListOffsets of committed records: what open and aborted transactions hide, and when readers are woken."""

from __future__ import annotations

import asyncio

from broker.api.offsets import OffsetsApi
from broker.partition.partition import READ_COMMITTED, Marker, Partition
from protocol.api_keys import ApiKey
from protocol.messages.fetch import PartitionData
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from storage.producers.verification import NOT_ASKED
from tests.harness.hosted import Hosted, context
from tests.unit.broker.api.test_fetch import BATCH_BYTES, Consumer, batch, offsets, parts

ROOM = BATCH_BYTES + 10  # for a batch, not for two


def begin(partition: Partition, producer_id: int, count: int = 1) -> None:
    with partition.log.transactions.in_hand(NOT_ASKED):
        for sequence in range(count):
            partition.append(
                batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
            )


def end(partition: Partition, producer_id: int, *, commit: bool) -> None:
    partition.append_marker(Marker(producer_id, 0, commit, 0, 0))


def aborted(data: PartitionData) -> list[tuple[int, int]]:
    assert data.aborted_transactions is not None
    return [(row.producer_id, row.first_offset) for row in data.aborted_transactions]


async def test_nothing_at_or_above_an_open_transaction_is_returned(hosted: Hosted) -> None:
    consumer, partition = Consumer(hosted), hosted.create("t")
    partition.append(batch())
    begin(partition, 5)
    partition.append(batch())
    data = await consumer.one(("t", 0, 0), isolation_level=READ_COMMITTED)
    assert (offsets(data), aborted(data)) == ([0], [])
    assert (data.last_stable_offset, data.high_watermark) == (1, 3)
    data = await consumer.one(("t", 0, 0))
    assert (offsets(data), data.aborted_transactions, data.last_stable_offset) == ([0, 1, 2], None, 1)


async def test_an_answer_names_the_aborted_transactions_of_its_own_records(hosted: Hosted) -> None:
    consumer, partition = Consumer(hosted), hosted.create("t")
    for producer_id in (5, 6):
        begin(partition, producer_id, 2)
        end(partition, producer_id, commit=False)
    named = []
    for offset in range(6):
        wanted = ("t", 0, offset)
        data = await consumer.one(wanted, isolation_level=READ_COMMITTED, partition_max_bytes=ROOM)
        assert offsets(data) == [offset]
        named.append(aborted(data))
    assert named == [[(5, 0)]] * 3 + [[(6, 3)]] * 3
    assert aborted(await consumer.one(("t", 0, 0), isolation_level=READ_COMMITTED)) == [(5, 0), (6, 3)]


async def test_the_end_of_a_transaction_wakes_those_who_wait_for_committed_records(hosted: Hosted) -> None:
    consumer, partition = Consumer(hosted), hosted.create("t")
    for commit in (True, False):
        start = partition.log.log_end_offset
        waiting = asyncio.ensure_future(
            consumer.one(("t", 0, start), isolation_level=READ_COMMITTED, max_wait_ms=60_000)
        )
        await asyncio.sleep(0)
        begin(partition, 5 + commit)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        end(partition, 5 + commit, commit=commit)
        data = await asyncio.wait_for(waiting, 5)
        assert offsets(data) == [start, start + 1]
        assert aborted(data) == ([] if commit else [(5, start)])


async def test_a_session_tells_of_what_was_decided_since(hosted: Hosted) -> None:
    consumer, partition = Consumer(hosted), hosted.create("t")
    begin(partition, 5)
    opened = await consumer.fetch(("t", 0, 0), isolation_level=READ_COMMITTED, session=(0, 0))
    assert offsets(parts(opened)[0]) == []
    end(partition, 5, commit=False)
    answer = await consumer.fetch(isolation_level=READ_COMMITTED, session=(opened.session_id, 1))
    (data,) = parts(answer)
    assert (offsets(data), aborted(data), data.last_stable_offset) == ([0, 1], [(5, 0)], 2)


async def test_the_latest_offset_is_that_of_the_isolation_level(hosted: Hosted) -> None:
    partition = hosted.create("t")
    api = OffsetsApi(hosted.manager, hosted.pools)
    partition.append(batch())
    begin(partition, 5)

    async def latest(isolation_level: int) -> int:
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [ListOffsetsTopic(name="t", partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        response = await api.list_offsets(request, context(ApiKey.LIST_OFFSETS, 5))
        return response.topics[0].partitions[0].offset

    assert (await latest(READ_COMMITTED), await latest(0)) == (1, 2)
    end(partition, 5, commit=True)
    assert (await latest(READ_COMMITTED), await latest(0)) == (3, 3)
