"""DeleteRecords over real logs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.delete_records import DeleteRecordsApi
from broker.partition.partition import Partition
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from tests.harness.hosted import NOW_MS, OTHER_ID, Hosted, context
from tests.harness.wakes import Wakes


class Rig:
    """The family, with the log starts that were durable whenever it asked for that."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.saved: list[dict[str, int]] = []
        self.failing: str | None = None
        self.api = DeleteRecordsApi(hosted.manager, self.save)

    async def save(self) -> None:
        self.saved.append({f"{one.tp}": one.log.log_start_offset for one in self.hosted.manager})
        if self.failing is not None:
            self.hosted.manager.fail_dir_of(StorageFailure("I/O error", self.failing))

    async def delete(self, *entries: tuple[str, int, int], version: int = 2) -> list[tuple[int, int]]:
        """Delete up to each (topic, partition, offset); give (error, low watermark) of each."""
        topics = [
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
            for name, index, offset in entries
        ]
        self.context = context(ApiKey.DELETE_RECORDS, version)
        response = await self.api.delete_records(DeleteRecordsRequest(topics=topics, timeout_ms=1000), self.context)
        return [(one.error_code, one.low_watermark) for topic in response.topics for one in topic.partitions]

    def filled(self, count: int = 10, name: str = "t", **options: Any) -> Partition:
        partition = self.hosted.create(name, **options)
        for _ in range(count):
            partition.append(build_batch([(b"k", b"v")], timestamp=NOW_MS))
        return partition


@pytest.fixture
def rig(hosted: Hosted) -> Rig:
    return Rig(hosted)


async def test_the_log_start_moves_and_the_answer_waits_until_it_is_durable(rig: Rig) -> None:
    partition = rig.filled()
    assert await rig.delete(("t", 0, 4)) == [(0, 4)]
    assert partition.log.log_start_offset == 4
    assert rig.saved == [{"t-0": 4}]
    assert rig.context.outlives_peer


async def test_at_or_below_the_log_start_nothing_changes_and_all_is_well(rig: Rig) -> None:
    rig.filled()
    await rig.delete(("t", 0, 4))
    assert await rig.delete(("t", 0, 2), ("t", 0, 4), ("t", 0, 0)) == [(0, 4)] * 3


async def test_minus_one_means_the_high_watermark(rig: Rig) -> None:
    rig.filled()
    assert await rig.delete(("t", 0, -1)) == [(0, 10)]
    assert await rig.delete(("t", 0, -1)) == [(0, 10)]


@pytest.mark.parametrize("offset", [11, (1 << 63) - 1, -2, -(1 << 63)])
async def test_offsets_beyond_the_high_watermark_or_below_zero_are_out_of_range(rig: Rig, offset: int) -> None:
    partition = rig.filled()
    assert await rig.delete(("t", 0, offset)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert partition.log.log_start_offset == 0
    assert rig.saved == []


async def test_what_must_not_be_deleted_is_refused_for_itself(rig: Rig) -> None:
    rig.filled()
    rig.filled(name="compacted", config=LogConfig(cleanup_policy=frozenset({"compact"})))
    rig.filled(name="kept", config=LogConfig(cleanup_policy=frozenset()))
    rig.filled(name="both", config=LogConfig(cleanup_policy=frozenset({"compact", "delete"})))
    rig.filled(name="__consumer_offsets")
    rig.hosted.create("led elsewhere", leader=OTHER_ID)
    assert await rig.delete(
        ("nope", 0, 1),
        ("t", 1, 1),
        ("compacted", 0, 1),
        ("kept", 0, 1),
        ("__consumer_offsets", 0, 1),
        ("__transaction_state", 0, 1),
        ("led elsewhere", 0, 0),
        ("both", 0, 3),
        ("t", 0, 5),
    ) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.POLICY_VIOLATION, -1),
        (ErrorCode.POLICY_VIOLATION, -1),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (0, 3),
        (0, 5),
    ]


async def test_a_directory_that_does_not_take_the_new_start_is_a_storage_error(rig: Rig) -> None:
    partition = rig.filled()
    rig.failing = partition.log.path
    assert await rig.delete(("t", 0, 4)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


async def test_whoever_waits_at_a_deleted_offset_looks_again(rig: Rig) -> None:
    partition = rig.filled()
    waiter = Wakes()
    partition.waiters.add(waiter)
    await rig.delete(("t", 0, 0))
    assert not waiter.changed
    await rig.delete(("t", 0, 4))
    assert waiter.changed == {partition}
