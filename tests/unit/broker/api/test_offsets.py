"""ListOffsets and OffsetForLeaderEpoch over real logs."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    SPECIAL_SINCE,
    OffsetsApi,
)
from broker.partition.partition import Partition
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from tests.harness.hosted import NODE_ID, NOW_MS, OTHER_ID, Hosted, context

NEWEST = 11
NOTHING = (0, -1, -1, -1)


async def ask(
    hosted: Hosted, *entries: tuple[str, int, int], version: int = NEWEST, epoch: int = -1, **request: Any
) -> list[tuple[int, int, int, int]]:
    """List (topic, partition, timestamp)s; give (error, timestamp, offset, epoch) of each."""
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)],
        )
        for name, index, timestamp in entries
    ]
    response = await OffsetsApi(hosted.manager).list_offsets(
        ListOffsetsRequest(replica_id=request.pop("replica_id", -1), topics=topics, **request),
        context(ApiKey.LIST_OFFSETS, version),
    )
    return [
        (answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch)
        for topic in response.topics
        for answer in topic.partitions
    ]


def filled(hosted: Hosted, *seconds: int, **options: Any) -> Partition:
    """Create topic t with one record at each of these seconds after NOW."""
    partition = hosted.create("t", **options)
    for second in seconds:
        partition.append(build_batch([(None, b"v")], timestamp=NOW_MS + second * 1000))
    return partition


async def test_both_ends_and_times_are_found(hosted: Hosted) -> None:
    partition = filled(hosted, 0, 10, 5, 20, epoch=3)
    partition.log.increment_log_start_offset(1)
    assert await ask(hosted, ("t", 0, EARLIEST)) == [(0, -1, 1, 3)]
    assert await ask(hosted, ("t", 0, EARLIEST_LOCAL)) == [(0, -1, 1, 3)]
    assert await ask(hosted, ("t", 0, LATEST)) == [(0, -1, 4, 3)]
    assert await ask(hosted, ("t", 0, MAX_TIMESTAMP)) == [(0, NOW_MS + 20_000, 3, 3)]
    assert await ask(hosted, ("t", 0, NOW_MS)) == [(0, NOW_MS + 10_000, 1, 3)]
    assert await ask(hosted, ("t", 0, NOW_MS + 10_001)) == [(0, NOW_MS + 20_000, 3, 3)]


async def test_nothing_found_is_no_error(hosted: Hosted) -> None:
    filled(hosted, 0)
    assert await ask(hosted, ("t", 0, NOW_MS + 1)) == [NOTHING]
    assert await ask(hosted, ("t", 0, LATEST_TIERED)) == [NOTHING]
    assert await ask(hosted, ("t", 0, EARLIEST_PENDING_UPLOAD)) == [NOTHING]
    hosted.create("empty")
    assert await ask(hosted, ("empty", 0, MAX_TIMESTAMP)) == await ask(hosted, ("empty", 0, 0)) == [NOTHING]


async def test_what_is_not_replicated_yet_is_invisible_but_to_a_debugging_consumer(hosted: Hosted) -> None:
    partition = filled(hosted, 0)
    hosted.lead("t", NODE_ID, epoch=1, isr=(NODE_ID, OTHER_ID))
    partition.append(build_batch([(None, b"v")], timestamp=NOW_MS + 1000))
    assert await ask(hosted, ("t", 0, LATEST)) == [(0, -1, 1, 1)]
    assert await ask(hosted, ("t", 0, LATEST), isolation_level=1) == [(0, -1, 1, 1)]
    assert await ask(hosted, ("t", 0, NOW_MS + 1000)) == [NOTHING]
    assert await ask(hosted, ("t", 0, LATEST), replica_id=-2) == [(0, -1, 2, 1)]


@pytest.mark.parametrize("special", [timestamp for timestamp, since in SPECIAL_SINCE.items() if since > 1])
async def test_a_special_timestamp_older_than_its_version_is_refused(hosted: Hosted, special: int) -> None:
    filled(hosted, 0)
    since = SPECIAL_SINCE[special]
    ((before, *_),) = await ask(hosted, ("t", 0, special), version=since - 1)
    ((after, *_),) = await ask(hosted, ("t", 0, special), version=since)
    assert (before, after) == (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE)


async def test_each_partition_fails_alone(hosted: Hosted) -> None:
    filled(hosted, 0, partitions=2, epoch=2)
    found = await ask(hosted, ("t", 0, LATEST), ("t", 1, LATEST), ("t", 1, EARLIEST), ("u", 0, LATEST))
    assert [error for error, *_ in found] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [error for error, *_ in await ask(hosted, ("t", 0, LATEST), epoch=1)] == [ErrorCode.FENCED_LEADER_EPOCH]
    assert [error for error, *_ in await ask(hosted, ("t", 0, LATEST), epoch=3)] == [ErrorCode.UNKNOWN_LEADER_EPOCH]


async def test_a_disk_that_fails_a_search_takes_its_directory_offline(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = filled(hosted, 0)

    def refuse(*_: object, **__: object) -> None:
        raise StorageFailure("I/O error", partition.log.path)

    monkeypatch.setattr(type(partition.log), "offset_for_timestamp", refuse)
    assert await ask(hosted, ("t", 0, 0)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)]
    assert hosted.manager.offline_count == 1


async def test_the_end_of_an_epoch_tells_a_consumer_whether_it_read_what_was_lost(hosted: Hosted) -> None:
    filled(hosted, 0, 1, epoch=1)
    hosted.lead("t", NODE_ID, epoch=4)
    hosted.manager.get("t", 0).append(build_batch([(None, b"v")], timestamp=NOW_MS))

    async def end_of(epoch: int, *, current: int = -1, topic: str = "t") -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        response = await OffsetsApi(hosted.manager).offset_for_leader_epoch(
            OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]),
            context(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4),
        )
        (answer,) = response.topics[0].partitions
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert await end_of(1) == (0, 1, 2)
    assert await end_of(3) == (0, 1, 2)
    assert await end_of(4) == (0, 4, 3)
    assert await end_of(9) == (0, -1, -1)
    assert await end_of(4, current=3) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert await end_of(4, topic="u") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
