"""Markers: where transactions end, who writes them, and what readers see of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from broker.partition.errors import NotLeader, UnknownPartition
from broker.partition.markers import MarkerWriter
from broker.partition.partition import READ_COMMITTED, READ_UNCOMMITTED, Marker, Partition
from protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, iter_batches
from protocol.records.builder import build_batch
from protocol.records.control import parse_marker
from storage.errors import InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced
from storage.producers.verification import NOT_ASKED
from storage.types import TopicPartition
from tests.harness.hosted import NOW_MS, OTHER_ID, Hosted
from tests.harness.wakes import Wakes

PID = 7
T0 = TopicPartition("t", 0)


def append(partition: Partition, *values: bytes, sequence: int = 0, epoch: int = 0, producer_id: int = PID) -> int:
    batch = build_batch(
        [(b"k", value) for value in values],
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    with partition.log.transactions.in_hand(NOT_ASKED):
        return partition.append(batch).base_offset


async def end(
    writer: MarkerWriter, tp: TopicPartition = T0, *, commit: bool = True, epoch: int = 0, coordinator_epoch: int = 1,
    version: int = 0, producer_id: int = PID,
) -> None:  # fmt: skip
    await writer.write_marker(
        tp,
        producer_id,
        epoch,
        is_commit=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def bounds(partition: Partition) -> tuple[int, int]:
    return partition.bound(READ_COMMITTED), partition.bound(READ_UNCOMMITTED)


def batches_in(partition: Partition) -> Sequence[tuple[int, int, int]]:
    log = partition.log
    found = log.read(0, max_bytes=1 << 20, bound=log.log_end_offset, min_one_batch=True)
    assert found.region is not None
    data = bytes(found.region.read())
    found.region.release()
    return [(header.base_offset, header.attributes, header.producer_epoch) for _, header in iter_batches(data)]


async def test_open_transactions_hold_back_readers_of_committed_records_until_their_marker(hosted: Hosted) -> None:
    partition, writer = hosted.create("t"), MarkerWriter(hosted.manager)
    append(partition, b"a")
    append(partition, b"b", b"c", producer_id=8)
    assert bounds(partition) == (0, 3)
    waiter = Wakes()
    partition.waiters.add(waiter)
    await end(writer, producer_id=8)
    assert bounds(partition) == (0, 4)
    waiter.changed.clear()
    await end(writer)
    assert bounds(partition) == (5, 5)
    assert waiter.changed == {partition}


async def test_a_marker_is_a_batch_of_its_own_with_one_record(hosted: Hosted) -> None:
    partition, writer = hosted.create("t"), MarkerWriter(hosted.manager)
    append(partition, b"a", epoch=3)
    await end(writer, commit=False, epoch=4, coordinator_epoch=9, version=2)
    assert batches_in(partition) == [(0, TRANSACTIONAL_BIT, 3), (1, TRANSACTIONAL_BIT | CONTROL_BIT, 4)]
    found = partition.log.read(1, max_bytes=1000, bound=2, min_one_batch=True)
    assert found.region is not None
    marker = parse_marker(bytes(found.region.read()))
    found.region.release()
    assert marker is not None and marker.is_abort and marker.coordinator_epoch == 9


async def test_what_the_partition_refuses_is_raised_and_nothing_written(hosted: Hosted) -> None:
    partition, writer = hosted.create("t"), MarkerWriter(hosted.manager)
    append(partition, b"a", epoch=3)
    for refusal, options in (
        (InvalidProducerEpoch, {"epoch": 2}),
        (InvalidProducerEpoch, {"epoch": 3, "version": 2}),
    ):
        with pytest.raises(refusal):
            await end(writer, **options)  # type: ignore[arg-type]
    await end(writer, epoch=3, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        await end(writer, epoch=3, coordinator_epoch=4)
    assert partition.log.log_end_offset == 2


async def test_only_the_leader_of_an_existing_partition_writes_markers(hosted: Hosted) -> None:
    writer = MarkerWriter(hosted.manager)
    hosted.create("elsewhere", leader=OTHER_ID)
    with pytest.raises(UnknownPartition):
        await end(writer)
    with pytest.raises(NotLeader):
        await end(writer, TopicPartition("elsewhere", 0))


async def test_a_marker_waits_for_a_log_that_is_being_replaced(hosted: Hosted) -> None:
    partition, writer = hosted.create("t"), MarkerWriter(hosted.manager)
    append(partition, b"a")
    partition.hold()
    ending = asyncio.create_task(end(writer))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not ending.done() and partition.log.log_end_offset == 1
    partition.release()
    await ending
    assert bounds(partition) == (2, 2)


async def test_markers_of_a_coordinator_s_own_topic_are_left_to_it(hosted: Hosted) -> None:
    hosted.create("__consumer_offsets", partitions=2)
    writer, left = MarkerWriter(hosted.manager), []

    async def own(partition: int, marker: Marker) -> None:
        left.append((partition, marker))

    writer.leave_to("__consumer_offsets", own)
    await end(writer, TopicPartition("__consumer_offsets", 1), epoch=3, version=2)
    assert left == [(1, Marker(PID, 3, True, 1, 2))]
    with pytest.raises(UnknownPartition):
        await end(writer, TopicPartition("__consumer_offsets", 2))
    assert len(left) == 1


async def test_a_batch_that_comes_after_the_abort_is_refused(hosted: Hosted) -> None:
    partition, writer = hosted.create("t"), MarkerWriter(hosted.manager)
    append(partition, b"a")
    await end(writer, commit=False, epoch=1, version=2)
    for epoch in (0, 1):
        batch = build_batch(
            [(b"k", b"late")], timestamp=NOW_MS, producer_id=PID, producer_epoch=epoch, base_sequence=1,
            is_transactional=True,
        )  # fmt: skip
        with pytest.raises(InvalidTxnState):
            partition.append(batch)
    assert bounds(partition) == (2, 2)
