"""Fetch over real logs, the long way and the short one: size rules, isolation, errors, sessions and long polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from broker.api.fetch import FetchApi
from broker.api.fetch_sessions import FetchSessions
from broker.api.leaders import Leaders
from broker.api.route import LONG_WAY, RequestContext
from broker.partition.partition import Partition
from broker.quota.clients import ClientQuotas, RequestMeter
from broker.quota.rates import Windows
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode
from protocol.headers import request_header, response_prefix
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from protocol.records.builder import build_batch
from storage.errors import StorageFailure
from storage.segment.region import FileRegion
from tests.harness.hosted import NODE_ID, NOW_MS, OTHER_ID, Hosted, context, topic_id_of

BY_NAME = 12
BY_ID = 13
MAX_BYTES = 1 << 20


def batch(value: bytes = b"v", **options: Any) -> bytearray:
    return build_batch([(b"k", value)], **{"timestamp": NOW_MS, **options})


BATCH_BYTES = len(batch())


class Consumer:
    """A client of the family, without the wire."""

    def __init__(self, hosted: Hosted, *, short: bool = False) -> None:
        self.hosted = hosted
        self.short = short
        ids = count(1)
        self.sessions = FetchSessions(4, lambda: next(ids), lambda: 0.0)
        self.api = FetchApi(hosted.manager, hosted.image, self.sessions, Leaders(hosted.image), MAX_BYTES)

    async def fetch(
        self,
        *wanted: tuple[str, int, int],
        version: int = BY_NAME,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = MAX_BYTES,
        partition_max_bytes: int = MAX_BYTES,
        session: tuple[int, int] = (0, -1),
        forget: tuple[str, ...] = (),
        isolation_level: int = 0,
        meter: RequestMeter | None = None,
        **partition: Any,
    ) -> FetchResponse:
        """Fetch (topic, partition, offset)s."""
        topics = [
            FetchTopic(
                topic=name,
                topic_id=topic_id_of(name),
                partitions=[
                    FetchPartition(
                        partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **partition
                    )
                ],
            )
            for name, index, offset in wanted
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session[0],
            session_epoch=session[1],
            topics=topics,
            forgotten_topics_data=[ForgottenTopic(topic=name, partitions=[0]) for name in forget],
        )
        asking = context(ApiKey.FETCH, version)
        asking.meter = meter
        if self.short:
            return await self.fetch_short(request, asking)
        return await self.api.fetch(request, asking)

    async def fetch_short(self, request: FetchRequest, asking: RequestContext) -> FetchResponse:
        """Have a request answered as one that comes over the wire; the records of the answer are bytes."""
        version = asking.api_version
        header = request_header(ApiKey.FETCH, version, asking.correlation_id, asking.client_id)
        frame = memoryview(header + encode_bytes(request, version))
        plain = self.api.routes()[0].plain
        asked = plain.read(frame) if plain is not None else None
        assert plain is not None and asked is not None
        assert asked[:3] == (version, asking.correlation_id, asking.client_id)
        pieces = plain.serve(asked, asking)
        if pieces is LONG_WAY:
            return await self.api.fetch(request, asking)
        if not isinstance(pieces, list):
            parked, answered = pieces, asyncio.get_running_loop().create_future()
            parked.begin(answered.set_result, answered.set_exception)
            try:
                pieces = await answered
            except asyncio.CancelledError:
                parked.cancel()
                raise
            if isinstance(pieces, FetchResponse):
                return pieces
        whole = joined(pieces)
        prefix = response_prefix(ApiKey.FETCH, asking.api_version, asking.correlation_id)
        assert whole[:4] == (len(whole) - 4).to_bytes(4, "big") and whole[4:].startswith(prefix)
        return decode(FetchResponse, asking.api_version, whole, 4 + len(prefix))

    async def one(self, *wanted: tuple[str, int, int], **options: Any) -> PartitionData:
        response = await self.fetch(*wanted, **options)
        (data,) = parts(response)
        return data


@pytest.fixture(params=[False, True], ids=["long way", "short way"])
async def consumer(hosted: Hosted, request: pytest.FixtureRequest) -> Consumer:
    return Consumer(hosted, short=request.param)


def joined(pieces: list[Any]) -> bytes:
    """Give the bytes of an answer and release its regions."""
    whole = b""
    for piece in pieces:
        if isinstance(piece, FileRegion):
            whole += piece.read()
            piece.release()
        else:
            whole += piece
    return whole


def parts(response: FetchResponse) -> list[PartitionData]:
    return [data for topic in response.responses for data in topic.partitions]


def offsets(data: PartitionData) -> list[int]:
    """Give the base offsets of the batches in an answer."""
    records = data.records
    found, stored = [], joined([records]) if records else b""
    while stored:
        found.append(int.from_bytes(stored[:8], "big"))
        stored = stored[int.from_bytes(stored[8:12], "big") + 12 :]
    return found


def filled(hosted: Hosted, name: str, batches: int, **options: Any) -> Partition:
    partition = hosted.create(name, **options)
    for _ in range(batches):
        partition.append(batch())
    return partition


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for is a state, not an event
            await asyncio.sleep(0)


# --- what is returned ---


async def test_everything_from_the_offset_on_is_returned_with_the_logs_bounds(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 5)
    data = await consumer.one(("t", 0, 2))
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 5, 5, 0)
    assert data.aborted_transactions is None
    assert offsets(data) == [2, 3, 4]


async def test_limits_cut_between_batches_but_never_below_one(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 5)
    assert offsets(await consumer.one(("t", 0, 0), partition_max_bytes=2 * BATCH_BYTES + 5)) == [0, 1]
    assert offsets(await consumer.one(("t", 0, 0), max_bytes=3 * BATCH_BYTES)) == [0, 1, 2]
    assert offsets(await consumer.one(("t", 0, 0), partition_max_bytes=1)) == [0]
    assert offsets(await consumer.one(("t", 0, 0), max_bytes=0)) == [0]


async def test_only_the_first_partition_with_data_may_exceed_the_limits(consumer: Consumer) -> None:
    consumer.hosted.create("empty")
    filled(consumer.hosted, "a", 2)
    filled(consumer.hosted, "b", 2)
    response = await consumer.fetch(("empty", 0, 0), ("a", 0, 0), ("b", 0, 0), max_bytes=10)
    assert [offsets(data) for data in parts(response)] == [[], [0], []]
    response = await consumer.fetch(("a", 0, 0), ("b", 0, 0), max_bytes=3 * BATCH_BYTES)
    assert [offsets(data) for data in parts(response)] == [[0, 1], [0]]


async def test_nothing_beyond_the_high_watermark_is_returned(consumer: Consumer) -> None:
    partition = filled(consumer.hosted, "t", 2)
    consumer.hosted.lead("t", NODE_ID, epoch=1, isr=(NODE_ID, OTHER_ID))
    partition.append(batch())
    assert partition.log.log_end_offset == 3
    assert offsets(await consumer.one(("t", 0, 0))) == [0, 1]
    assert offsets(await consumer.one(("t", 0, 2))) == []


async def test_read_committed_answers_name_the_aborted_transactions(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 1)
    data = await consumer.one(("t", 0, 0), isolation_level=1)
    assert data.aborted_transactions == []
    assert offsets(data) == [0]


# --- errors ---


@pytest.mark.parametrize("offset", [-1, 3])
async def test_an_offset_outside_the_log_is_out_of_range(consumer: Consumer, offset: int) -> None:
    filled(consumer.hosted, "t", 2)
    data = await consumer.one(("t", 0, offset), max_wait_ms=60_000)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.records) == (-1, b"")


async def test_a_partition_in_error_is_answered_at_once_beside_its_neighbours(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 1)
    response = await consumer.fetch(("t", 0, 0), ("u", 0, 0), max_wait_ms=60_000, min_bytes=10_000)
    data, missing = parts(response)
    assert offsets(data) == [0]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_ids_name_topics_from_version_13_on(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 1)
    assert offsets(await consumer.one(("t", 0, 0), version=BY_ID)) == [0]
    assert (await consumer.one(("u", 0, 0), version=BY_ID)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.NONE), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_the_clients_leader_epoch_must_be_ours(consumer: Consumer, epoch: int, code: ErrorCode) -> None:
    filled(consumer.hosted, "t", 1, epoch=2)
    data = await consumer.one(("t", 0, 0), current_leader_epoch=epoch)
    assert data.error_code == code
    offsets(data)


async def test_a_partition_led_elsewhere_names_the_leader_and_where_it_is(consumer: Consumer) -> None:
    consumer.hosted.create("t", leader=OTHER_ID, epoch=4, replicas=(NODE_ID, OTHER_ID))
    response = await consumer.fetch(("t", 0, 0), version=16)
    (data,) = parts(response)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (OTHER_ID, 4)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(OTHER_ID, "host2", 9002)]
    assert not (await consumer.fetch(("t", 0, 0), version=15)).node_endpoints


async def test_a_client_that_read_a_truncated_epoch_is_told_where_it_diverged(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 2, epoch=1)
    consumer.hosted.lead("t", NODE_ID, epoch=5)
    consumer.hosted.manager.get("t", 0).append(batch())
    data = await consumer.one(("t", 0, 3), last_fetched_epoch=3, max_wait_ms=60_000)
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 2)
    assert data.records == b""
    agreeing = await consumer.one(("t", 0, 2), last_fetched_epoch=1)
    assert agreeing.diverging_epoch.epoch == -1
    assert offsets(agreeing) == [2]


@pytest.mark.pure
@pytest.mark.parametrize(("version", "code"), [(5, 6), (6, 56), (12, 56)])
async def test_a_disk_that_fails_a_read_takes_its_directory_offline(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch, version: int, code: int
) -> None:
    partition = filled(consumer.hosted, "t", 1)

    def refuse(*_: object, **__: object) -> None:
        raise StorageFailure("I/O error", partition.log.path)

    monkeypatch.setattr(type(partition.log), "read", refuse)
    for _ in range(2):  # the second time the partition is known to be offline
        assert (await consumer.one(("t", 0, 0), version=version)).error_code == code
    assert consumer.hosted.manager.offline_count == 1


# --- waiting ---


async def test_a_fetch_without_data_waits_for_an_append(consumer: Consumer) -> None:
    partition = consumer.hosted.create("t")
    waiting = asyncio.ensure_future(consumer.one(("t", 0, 0), max_wait_ms=60_000))
    await until(lambda: bool(partition.waiters))
    partition.append(batch())
    data = await asyncio.wait_for(waiting, 5)
    assert offsets(data) == [0]
    assert data.high_watermark == 1
    assert not partition.waiters


async def test_a_fetch_waits_until_min_bytes_are_there_over_all_partitions(consumer: Consumer) -> None:
    first, second = consumer.hosted.create("a"), consumer.hosted.create("b")
    waiting = asyncio.ensure_future(
        consumer.fetch(("a", 0, 0), ("b", 0, 0), max_wait_ms=60_000, min_bytes=2 * BATCH_BYTES)
    )
    await until(lambda: bool(first.waiters))
    first.append(batch())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    second.append(batch())
    response = await asyncio.wait_for(waiting, 5)
    assert [offsets(data) for data in parts(response)] == [[0], [0]]


async def test_when_the_time_is_up_what_is_there_is_returned(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 1)
    data = await asyncio.wait_for(consumer.one(("t", 0, 0), max_wait_ms=20, min_bytes=10_000), 5)
    assert offsets(data) == [0]
    assert offsets(await asyncio.wait_for(consumer.one(("t", 0, 1), max_wait_ms=20), 5)) == []


async def test_a_stop_answers_who_is_parked_and_lets_nobody_wait_any_more(consumer: Consumer) -> None:
    partition = filled(consumer.hosted, "t", 1)
    waiting = asyncio.ensure_future(consumer.one(("t", 0, 0), max_wait_ms=60_000, min_bytes=10_000))
    await until(lambda: bool(partition.waiters))
    consumer.api.stop()
    assert offsets(await asyncio.wait_for(waiting, 5)) == [0]
    assert offsets(await asyncio.wait_for(consumer.one(("t", 0, 1), max_wait_ms=60_000), 5)) == []


async def test_min_bytes_above_what_one_answer_may_hold_are_not_waited_for(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 3)
    data = await consumer.one(("t", 0, 0), max_wait_ms=60_000, min_bytes=1 << 30, max_bytes=2 * BATCH_BYTES)
    assert offsets(data) == [0, 1]


async def test_deleting_the_topic_ends_the_wait_with_an_error(consumer: Consumer) -> None:
    partition = consumer.hosted.create("t")
    waiting = asyncio.ensure_future(consumer.one(("t", 0, 0), max_wait_ms=60_000))
    await until(lambda: bool(partition.waiters))
    consumer.hosted.delete("t")
    assert (await asyncio.wait_for(waiting, 5)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.pure
async def test_a_fetch_given_up_while_it_waits_leaves_no_waiter_and_no_pin(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = filled(consumer.hosted, "t", 1)
    released: list[FileRegion] = []
    release = FileRegion.release
    monkeypatch.setattr(FileRegion, "release", lambda region: (released.append(region), release(region)))
    waiting = asyncio.ensure_future(consumer.one(("t", 0, 0), max_wait_ms=60_000, min_bytes=10_000))
    await until(lambda: bool(partition.waiters))
    assert not released
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert not partition.waiters
    assert len(released) == 1


# --- sessions ---


async def test_an_incremental_fetch_names_only_what_has_changed(consumer: Consumer) -> None:
    first = filled(consumer.hosted, "a", 1)
    filled(consumer.hosted, "b", 1)
    response = await consumer.fetch(("a", 0, 1), ("b", 0, 1), session=(0, 0))
    session_id = response.session_id
    assert session_id and len(parts(response)) == 2
    quiet = await consumer.fetch(session=(session_id, 1))
    assert (quiet.session_id, quiet.responses) == (session_id, [])
    first.append(batch())
    news = await consumer.fetch(session=(session_id, 2))
    assert [topic.topic for topic in news.responses] == ["a"]
    assert offsets(parts(news)[0]) == [1]


async def test_a_fetch_without_a_session_gets_none(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 1)
    response = await consumer.fetch(("t", 0, 1), session=(0, -1))
    assert response.session_id == 0
    assert len(consumer.sessions) == 0


async def test_an_unknown_session_is_an_error_of_the_whole_request(consumer: Consumer) -> None:
    response = await consumer.fetch(("t", 0, 0), session=(77, 1))
    assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize("wakes_up", [True, False])
async def test_a_parked_fetch_whose_session_went_on_elsewhere_is_told_so(consumer: Consumer, wakes_up: bool) -> None:
    partition = consumer.hosted.create("t")
    session_id = (await consumer.fetch(("t", 0, 0), session=(0, 0))).session_id
    waiting = asyncio.ensure_future(consumer.fetch(session=(session_id, 1), max_wait_ms=60_000 if wakes_up else 20))
    await until(lambda: bool(partition.waiters))
    await consumer.fetch(session=(session_id, 2), forget=("t",))
    if wakes_up:
        partition.append(batch())
    response = await asyncio.wait_for(waiting, 5)
    assert (response.error_code, response.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


async def test_partitions_that_returned_data_are_served_last_the_next_time(consumer: Consumer) -> None:
    for name in ("a", "b"):
        filled(consumer.hosted, name, 3, config=LogConfig())
    session_id = (await consumer.fetch(("a", 0, 0), ("b", 0, 0), session=(0, 0), max_bytes=1)).session_id
    response = await consumer.fetch(session=(session_id, 1), max_bytes=1)
    assert [topic.topic for topic in response.responses] == ["b"]


# --- quotas ---


class Metered:
    """What a client with a quota of fetched bytes is counted by."""

    def __init__(self, bytes_per_second: float) -> None:
        self.quotas = ClientQuotas(Windows(), Windows(), lambda: 0)
        self.quotas.follow({(("client-id", None),): {"consumer_byte_rate": bytes_per_second}})

    def meter(self) -> RequestMeter:
        return self.quotas.meter("User:ann", "app", 0, 0)

    def total(self) -> float:
        return self.quotas.fetch.use("ann", "app", 0).measure.total  # type: ignore[union-attr]


async def test_a_fetch_finds_what_the_quota_allows_at_once_at_most(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 5)
    metered = Metered((3 * BATCH_BYTES) / 10)
    async with asyncio.timeout(10):  # it waits for no more
        response = await consumer.fetch(("t", 0, 0), min_bytes=1000, max_wait_ms=60_000, meter=metered.meter())
    assert [offsets(data) for data in parts(response)] == [[0, 1, 2]]


async def test_the_size_of_the_whole_response_is_counted(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 2)
    metered = Metered(1000)
    response = await consumer.fetch(("t", 0, 0), meter=metered.meter())
    head = len(encode_bytes(replace(response, responses=[]), BY_NAME)) + 4
    assert metered.total() > 2 * BATCH_BYTES + head
    offsets(parts(response)[0])


async def test_a_fetch_over_the_quota_gives_its_regions_back_and_says_nothing(consumer: Consumer) -> None:
    partition = filled(consumer.hosted, "t", 9)
    metered = Metered(BATCH_BYTES)
    assert offsets(parts(await consumer.fetch(("t", 0, 0), meter=metered.meter()))[0])
    counted = metered.total()
    meter = metered.meter()
    response = await consumer.fetch(("t", 0, 0), session=(0, 0), meter=meter)
    assert (response.responses, response.session_id, response.error_code) == ([], 0, 0)
    assert meter.settle() > 0 and metered.total() == counted
    assert len(consumer.sessions) == 0
    assert partition.log.log_end_offset == 9


async def test_a_session_remembers_nothing_of_an_answer_that_was_not_given(consumer: Consumer) -> None:
    filled(consumer.hosted, "t", 9)
    metered = Metered(BATCH_BYTES)
    response = await consumer.fetch(("t", 0, 9), session=(0, 0))
    session = response.session_id
    consumer.hosted.manager.get("t", 0).append(batch())
    assert offsets(parts(await consumer.fetch(("t", 0, 2), meter=metered.meter()))[0])
    throttled = await consumer.fetch(session=(session, 1), meter=metered.meter())
    assert (throttled.session_id, throttled.responses) == (session, [])
    (data,) = parts(await consumer.fetch(session=(session, 2)))
    assert (data.high_watermark, offsets(data)) == (10, [9])
