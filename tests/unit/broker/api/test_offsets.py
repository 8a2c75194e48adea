"""ListOffsets and OffsetForLeaderEpoch over real logs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_ATTEMPTS,
    MAX_TIMESTAMP,
    SPECIAL_SINCE,
    OffsetsApi,
)
from broker.partition.partition import Partition
from config.views import LogConfig
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
from storage.log.time_search import TimeSearch, TimestampOffset
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
    response = await OffsetsApi(hosted.manager, hosted.pools).list_offsets(
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

    def refuse(*_: object) -> None:
        raise StorageFailure("I/O error", partition.log.path)

    monkeypatch.setattr(TimeSearch, "run", refuse)
    assert await ask(hosted, ("t", 0, 0)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)]
    assert hosted.manager.offline_count == 1


async def test_the_end_of_an_epoch_tells_a_consumer_whether_it_read_what_was_lost(hosted: Hosted) -> None:
    filled(hosted, 0, 1, epoch=1)
    hosted.lead("t", NODE_ID, epoch=4)
    hosted.manager.get("t", 0).append(build_batch([(None, b"v")], timestamp=NOW_MS))

    async def end_of(epoch: int, *, current: int = -1, topic: str = "t") -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        response = await OffsetsApi(hosted.manager, hosted.pools).offset_for_leader_epoch(
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


class Watched:
    """Stands between a search and its thread: notes the thread, and lets something happen before the search runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *happenings: Callable[[], None]) -> None:
        self.threads: list[threading.Thread] = []
        self._happenings = list(happenings)
        self._loop = asyncio.get_running_loop()
        real = TimeSearch.run

        def run(search: TimeSearch) -> TimestampOffset | None:
            self.threads.append(threading.current_thread())
            if self._happenings:
                asyncio.run_coroutine_threadsafe(self._happen(self._happenings.pop(0)), self._loop).result(10)
            return real(search)

        monkeypatch.setattr(TimeSearch, "run", run)

    async def _happen(self, happening: Callable[[], None]) -> None:
        happening()


async def test_searches_run_beside_the_loop_and_answers_keep_their_order(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(hosted, 0, 10, 20, partitions=3)
    for index in (1, 2):
        hosted.manager.get("t", index).append(build_batch([(None, b"v")], timestamp=NOW_MS + index))
    watched = Watched(monkeypatch, lambda: None)  # the loop takes it up while the search waits for it
    asked = (("t", 2, 0), ("t", 0, NOW_MS + 5), ("t", 1, MAX_TIMESTAMP), ("u", 0, 0))
    assert await ask(hosted, *asked) == [
        (0, NOW_MS + 2, 0, 0),
        (0, NOW_MS + 10_000, 1, 0),
        (0, NOW_MS + 1, 0, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1),
    ]
    assert len(watched.threads) == 3
    assert threading.main_thread() not in watched.threads


async def test_what_memory_knows_needs_no_thread(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(hosted, 0, 10)
    watched = Watched(monkeypatch)
    for timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, NOW_MS + 10_001):
        await ask(hosted, ("t", 0, timestamp))
    assert not watched.threads


async def test_a_search_overtaken_by_a_truncation_is_made_again(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = filled(hosted, 0, 10, 20)
    watched = Watched(monkeypatch, lambda: partition.log.truncate_to(2) and None)
    assert await ask(hosted, ("t", 0, NOW_MS + 15_000)) == [NOTHING]
    assert len(watched.threads) == 1  # of what is left it is known that nothing is so new


async def test_records_deleted_under_a_search_are_not_found(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = filled(hosted, 0, 10, 20)
    watched = Watched(monkeypatch, lambda: partition.delete_records(1), lambda: partition.delete_records(2))
    assert await ask(hosted, ("t", 0, 0)) == [(0, NOW_MS + 20_000, 2, 0)]
    assert len(watched.threads) == 3


async def test_a_topic_deleted_under_a_search_is_unknown(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(hosted, 0, 10)
    Watched(monkeypatch, lambda: hosted.delete("t"))
    assert await ask(hosted, ("t", 0, 0)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)]
    assert not hosted.manager.offline_count


async def test_leadership_lost_under_a_search_is_seen(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(hosted, 0, 10)
    Watched(monkeypatch, lambda: hosted.lead("t", OTHER_ID, epoch=1))
    assert await ask(hosted, ("t", 0, 0)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)]


async def test_a_log_that_never_stands_still_is_given_up(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = filled(hosted, *range(20))
    starts = iter(range(1, 20))
    watched = Watched(monkeypatch, *(lambda: partition.delete_records(next(starts)) for _ in range(10)))
    assert await ask(hosted, ("t", 0, 0)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)]
    assert len(watched.threads) == MAX_ATTEMPTS
    assert not hosted.manager.offline_count


async def test_records_above_the_decompression_limit_are_invalid_records(hosted: Hosted) -> None:
    partition = filled(hosted)
    rows = [(b"k", b"v" * size, (), NOW_MS + at) for at, size in enumerate((10, 5000, 10))]
    partition.append(build_batch(rows, codec=1))
    hosted.configure("t", LogConfig(max_decompressed_message_bytes=1000))
    assert await ask(hosted, ("t", 0, NOW_MS)) == [(0, NOW_MS, 0, 0)]
    assert await ask(hosted, ("t", 0, NOW_MS + 2)) == [(ErrorCode.INVALID_RECORD, -1, -1, -1)]
    assert await ask(hosted, ("t", 0, MAX_TIMESTAMP)) == [(ErrorCode.INVALID_RECORD, -1, -1, -1)]
