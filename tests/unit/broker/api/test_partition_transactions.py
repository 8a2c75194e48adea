"""DescribeProducers and WriteTxnMarkers over real partitions, in the wire format of each version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.api.partition_transactions import PartitionTransactionsApi
from broker.partition.markers import MarkerWriter
from broker.partition.partition import Partition
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.records.builder import build_batch
from storage.producers.verification import NOT_ASKED
from tests.harness.hosted import NOW_MS, OTHER_ID, Hosted, context

E = ErrorCode
PID = 7


class Rig:
    """The family over a topic with two partitions."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.partition: Partition = hosted.create("t", partitions=2)
        api = PartitionTransactionsApi(hosted.manager, MarkerWriter(hosted.manager))
        self.routes = {route.api_key: route for route in api.routes()}

    async def call(self, request: Any, version: int) -> Any:
        key = request.API_KEY
        assert self.routes[key].serves(version)
        seen = decode(REQUESTS[key], version, encode_bytes(request, version))
        response = await self.routes[key].handler(seen, context(key, version))
        return decode(RESPONSES[key], version, encode_bytes(response, version))

    async def describe(self, topic: str = "t", *indexes: int) -> list[Any]:
        topics = [TopicRequest(name=topic, partition_indexes=list(indexes or (0,)))]
        response = await self.call(DescribeProducersRequest(topics=topics), 0)
        return list(response.topics[0].partitions)

    def append(
        self, sequence: int = 0, *, epoch: int = 0, is_transactional: bool = True, producer_id: int = PID
    ) -> None:
        batch = build_batch(
            [(None, b"v")],
            timestamp=NOW_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        with self.partition.log.transactions.in_hand(NOT_ASKED):
            self.partition.append(batch)

    async def mark(self, *markers: WritableTxnMarker, version: int = 1) -> dict[int, dict[str, dict[int, int]]]:
        """Write markers; gives producer id → topic → partition → code."""
        response = await self.call(WriteTxnMarkersRequest(markers=list(markers)), version)
        return {
            marker.producer_id: {
                topic.name: {row.partition_index: row.error_code for row in topic.partitions} for topic in marker.topics
            }
            for marker in response.markers
        }


def marker(
    topics: dict[str, list[int]] | None = None, *, epoch: int = 0, commit: bool = True, coordinator_epoch: int = 0,
    producer_id: int = PID, version: int = 0,
) -> WritableTxnMarker:  # fmt: skip
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in (topics or {"t": [0]}).items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


@pytest.fixture
def rig(hosted: Hosted) -> Rig:
    return Rig(hosted)


def fields(row: Any) -> tuple[int, ...]:
    return (
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.coordinator_epoch,
        row.current_txn_start_offset,
    )


async def test_a_partition_is_described_once_however_often_it_is_named(rig: Rig) -> None:
    assert [row.partition_index for row in await rig.describe("t", 1, 0, 1, 1)] == [1, 0]
    topics = [TopicRequest(name="t", partition_indexes=[0, 0])] * 3
    response = await rig.call(DescribeProducersRequest(topics=topics), 0)
    assert [[row.partition_index for row in topic.partitions] for topic in response.topics] == [[0]]


async def test_many_markers_leave_the_loop_to_others_in_between(rig: Rig) -> None:
    ends: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: ends.append(rig.partition.log.log_end_offset))
    await rig.mark(*(marker(producer_id=producer_id) for producer_id in range(200)))
    assert 0 < ends[0] < rig.partition.log.log_end_offset == 200


async def test_producers_are_described_with_the_start_of_their_open_transaction(rig: Rig) -> None:
    rig.append(4, is_transactional=False, producer_id=8)
    rig.append(0, epoch=3)
    rig.append(1, epoch=3)
    here, beside = await rig.describe("t", 0, 1)
    assert (here.error_code, here.error_message, beside.error_code, beside.active_producers) == (0, None, 0, [])
    assert [fields(row) for row in here.active_producers] == [(8, 0, 4, NOW_MS, -1, -1), (PID, 3, 1, NOW_MS, -1, 1)]
    await rig.mark(marker(epoch=3, coordinator_epoch=5))
    assert fields((await rig.describe())[0].active_producers[1]) == (PID, 3, 1, NOW_MS, 5, -1)


async def test_what_cannot_be_described_says_why(rig: Rig) -> None:
    rig.hosted.create("elsewhere", leader=OTHER_ID)
    for topic, index, code in (
        ("bad name!", 0, E.INVALID_TOPIC_EXCEPTION),
        ("", 0, E.INVALID_TOPIC_EXCEPTION),
        ("missing", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 2, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("elsewhere", 0, E.NOT_LEADER_OR_FOLLOWER),
    ):
        (row,) = await rig.describe(topic, index)
        assert (row.partition_index, row.error_code, row.active_producers) == (index, code, [])
        assert row.error_message


@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_ends_the_transaction(rig: Rig, commit: bool) -> None:
    rig.append()
    assert rig.partition.log.last_stable_offset == 0
    assert await rig.mark(marker(commit=commit)) == {PID: {"t": {0: 0}}}
    assert rig.partition.log.last_stable_offset == rig.partition.log.high_watermark == 2
    assert rig.partition.log.transactions.aborted(0, 2) == ([] if commit else [(PID, 0)])


async def test_the_log_tells_who_ended_a_transaction_by_hand(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.append()
    with caplog.at_level("INFO"):
        await rig.mark(marker({"t": [0], "missing": [0]}, commit=False))
    assert [record.getMessage() for record in caplog.records] == [
        f"transaction ended by hand partition=t-0 producer_id={PID} producer_epoch=0 result=abort client=127.0.0.1"
    ]


async def test_each_partition_has_its_own_answer_and_producers_theirs(rig: Rig) -> None:
    rig.append(epoch=2)
    told = await rig.mark(
        marker({"t": [0, 1, 9], "missing": [0]}, epoch=1),
        marker({"t": [1]}, producer_id=8),
        marker({"t": [0]}, epoch=2),
    )
    assert told == {
        PID: {
            "t": {0: 0, 1: 0, 9: E.UNKNOWN_TOPIC_OR_PARTITION},
            "missing": {0: E.UNKNOWN_TOPIC_OR_PARTITION},
        },
        8: {"t": {1: 0}},
    }
    assert await rig.mark(marker(epoch=1)) == {PID: {"t": {0: E.INVALID_PRODUCER_EPOCH}}}
    assert await rig.mark(marker(epoch=2, coordinator_epoch=-1)) == {PID: {"t": {0: E.TRANSACTION_COORDINATOR_FENCED}}}


async def test_the_version_of_the_transaction_decides_about_the_epoch_from_v2_on(rig: Rig) -> None:
    rig.append(epoch=2)
    late = marker(epoch=2, version=2)
    assert await rig.mark(late, version=2) == {PID: {"t": {0: E.INVALID_PRODUCER_EPOCH}}}
    assert await rig.mark(marker(epoch=3, version=2), version=2) == {PID: {"t": {0: 0}}}
    assert await rig.mark(marker(epoch=3, version=2), version=2) == {PID: {"t": {0: 0}}}


async def test_no_markers_are_no_work(rig: Rig) -> None:
    assert await rig.mark() == {}
    assert rig.routes[ApiKey.WRITE_TXN_MARKERS].min_version == 1
