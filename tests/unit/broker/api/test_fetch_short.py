"""The short way of a Fetch: it answers byte for byte what the long way answers, and parks without a task."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.api.fetch import FetchApi
from broker.api.fetch_sessions import FetchSessions
from broker.api.fetch_short import ParkedFetch
from broker.api.leaders import Leaders
from broker.api.route import LONG_WAY
from broker.partition.partition import READ_COMMITTED
from broker.partition.purgatory import Parked
from config.views import LogConfig
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode, encode_bytes
from protocol.frame import SIZE_BYTES, pack_size_into
from protocol.headers import request_header, response_prefix
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.harness.hosted import NODE_ID, NOW_MS, OTHER_ID, Hosted, context, topic_id_of
from tests.harness.scheduled import E_MS, SCHEDULED
from tests.unit.broker.api.test_fetch import BATCH_BYTES, batch, joined
from tests.unit.broker.api.test_fetch_committed import begin, end

TOPICS = ("a", "b")
PARTITIONS = 2
MAX_BYTES = 4 * BATCH_BYTES
VERSION = 17


class Way:
    """One of the two ways to the same logs, with sessions of its own."""

    def __init__(self, hosted: Hosted) -> None:
        ids = count(1)
        self.sessions = FetchSessions(4, lambda: next(ids), lambda: 0.0)
        self.api = FetchApi(hosted.manager, hosted.image, self.sessions, Leaders(hosted.image), MAX_BYTES)
        self.short_count = 0

    def long(self, request: FetchRequest, version: int) -> bytes:
        sent = decode(FetchRequest, version, encode_bytes(request, version))
        work = self.api.fetch(sent, context(ApiKey.FETCH, version))
        with pytest.raises(StopIteration) as ended:
            work.send(None)
        return encoded(ended.value.value, version)

    def short(self, request: FetchRequest, version: int) -> bytes:
        outcome = self.begin(request, version)
        if outcome is LONG_WAY:
            return self.long(request, version)
        assert isinstance(outcome, list)
        self.short_count += 1
        return joined(outcome)

    def begin(self, request: FetchRequest, version: int) -> Any:
        plain = self.api.routes()[0].plain
        assert plain is not None
        asked = plain.read(memoryview(request_header(ApiKey.FETCH, version, 7, "c") + encode_bytes(request, version)))
        return plain.serve(asked, context(ApiKey.FETCH, version)) if asked is not None else LONG_WAY


def encoded(answer: Any, version: int) -> bytes:
    """Give the bytes of an answer: of its pieces, or of a response as the dispatcher makes them."""
    if isinstance(answer, list):
        return joined(answer)
    pieces: list[Any] = encode(answer, version, bytes(SIZE_BYTES) + response_prefix(ApiKey.FETCH, version, 7))
    pack_size_into(pieces[0], 0, sum(map(len, pieces)) - SIZE_BYTES)
    return joined(pieces)


def wanted(name: str, *rows: FetchPartition) -> FetchTopic:
    return FetchTopic(topic=name, topic_id=topic_id_of(name), partitions=list(rows))


def row(partition: int, offset: int, **more: Any) -> FetchPartition:
    return FetchPartition(partition=partition, fetch_offset=offset, **{"partition_max_bytes": MAX_BYTES, **more})


topics = st.sampled_from((*TOPICS, "absent"))
rows = st.builds(
    row,
    st.integers(0, PARTITIONS),
    st.integers(0, 12),
    current_leader_epoch=st.sampled_from([-1, -1, -1, 0, 1]),
    last_fetched_epoch=st.sampled_from([-1, -1, -1, -1, 0, 5]),
    partition_max_bytes=st.sampled_from([0, 1, BATCH_BYTES, 3 * BATCH_BYTES, MAX_BYTES]),
)
requests = st.builds(
    FetchRequest,
    max_wait_ms=st.just(0),
    min_bytes=st.integers(0, 2),
    max_bytes=st.sampled_from([0, 1, 2 * BATCH_BYTES, MAX_BYTES]),
    isolation_level=st.sampled_from([0, READ_COMMITTED]),
    session_epoch=st.sampled_from([-1, 0, 1, 1, 1]),  # 1: whatever comes next
    topics=st.lists(
        st.builds(lambda name, asked: wanted(name, *asked), topics, st.lists(rows, max_size=3)), max_size=3
    ),
    forgotten_topics_data=st.lists(
        st.builds(
            lambda name, index: ForgottenTopic(topic=name, topic_id=topic_id_of(name), partitions=[index]),
            topics,
            st.integers(0, PARTITIONS),
        ),
        max_size=1,
    ),
)
changes = st.tuples(
    st.sampled_from(
        ["append"] * 5
        + ["append for later", "time passes", "other mode"] * 2
        + ["abort", "commit"]
        + ["delete records", "leave", "return"]
    ),
    st.sampled_from(TOPICS),
    st.integers(0, PARTITIONS - 1),
)


def change(hosted: Hosted, what: str, name: str, index: int, producer_id: int) -> None:
    partition = hosted.manager.find((name, index))
    assert partition is not None
    if what == "leave":
        hosted.lead(name, OTHER_ID, partition.leader_epoch)
    elif what == "return":
        hosted.lead(name, NODE_ID, partition.leader_epoch)
    elif what == "time passes":
        hosted.timers.pass_ms(E_MS)
    elif what == "other mode":
        hosted.configure(name, LogConfig() if partition.log.config.is_scheduled else SCHEDULED)
    elif partition.is_leader and what.startswith("append"):
        partition.append(batch(timestamp=hosted.clock.wall_ms if what == "append for later" else NOW_MS - E_MS))
    elif partition.is_leader and what == "delete records":
        partition.delete_records(min(partition.log.log_start_offset + 1, partition.log.high_watermark))
    elif partition.is_leader:
        begin(partition, producer_id)
        end(partition, producer_id, commit=what == "commit")


@given(
    st.lists(st.one_of(requests, requests, changes), min_size=5, max_size=40),
    st.sampled_from([4, 6, 7, 9, 11, 12, 13, VERSION]),
)
@settings(max_examples=50, deadline=None)
def test_both_ways_say_the_same(tmp_path_factory: pytest.TempPathFactory, steps: list[Any], version: int) -> None:
    asyncio.run(both_ways(tmp_path_factory.mktemp("logs"), steps, version))


async def both_ways(path: Path, steps: list[Any], version: int) -> None:
    hosted = Hosted(path)
    for name in TOPICS:
        hosted.create(name, PARTITIONS)
        hosted.manager.find((name, 0)).append(batch())  # type: ignore[union-attr]
    long, short = Way(hosted), Way(hosted)
    epoch = 0
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            change(hosted, *step, producer_id=number)
            continue
        if version < 7:
            step.session_epoch = -1
        elif step.session_epoch == 0:
            epoch = 1
        step.session_id = len(long.sessions) and 1 if step.session_epoch == 1 else 0
        if step.session_epoch == 1:
            step.session_id, step.session_epoch = max(long.sessions._sessions, default=9), epoch
            epoch += 1
        assert short.short(step, version) == long.long(step, version)
        told = [
            [(key, one.high_watermark, one.log_start_offset, one.had_error) for key, one in session.wanted.items()]
            for way in (short, long)
            for session in way.sessions._sessions.values()
        ]
        assert told[: len(told) // 2] == told[len(told) // 2 :]
    hosted.pools.close()
    hosted.logs.close(clean=False)


async def test_requests_as_consumers_send_them_go_the_short_way(hosted: Hosted) -> None:
    hosted.create("a").append(batch())
    way = Way(hosted)
    for isolation_level in (0, READ_COMMITTED):
        way.short(FetchRequest(isolation_level=isolation_level, topics=[wanted("a", row(0, 0))]), VERSION)
    assert way.short_count == 2
    way.short(FetchRequest(session_epoch=0, topics=[wanted("a", row(0, 0))]), VERSION)
    way.short(FetchRequest(session_id=1, session_epoch=1, topics=[wanted("a", row(0, 1))]), VERSION)
    way.short(FetchRequest(session_id=1, session_epoch=2), VERSION)
    assert way.short_count == 4


class Wait:
    """A request that has parked, and what becomes of it."""

    def __init__(self, way: Way, request: FetchRequest) -> None:
        parked = way.begin(request, VERSION)
        assert isinstance(parked, Parked)
        self.parked = parked
        self.answers: list[bytes] = []
        self.failures: list[Exception] = []
        parked.begin(lambda answer: self.answers.append(encoded(answer, VERSION)), self.failures.append)


def incremental(epoch: int, *topics: FetchTopic, max_wait_ms: int = 60_000, min_bytes: int = 1) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, session_id=1, session_epoch=epoch, topics=list(topics)
    )


def with_session(hosted: Hosted, *topics: FetchTopic) -> Way:
    way = Way(hosted)
    way.long(FetchRequest(session_epoch=0, topics=list(topics)), VERSION)
    return way


async def test_appends_of_a_turn_are_looked_at_once_and_answered_together(hosted: Hosted) -> None:
    partition = hosted.create("a")
    way, twin = (with_session(hosted, wanted("a", row(0, 0))) for _ in range(2))
    wait = Wait(way, incremental(1))
    partition.append(batch())
    partition.append(batch())
    assert not wait.answers
    await asyncio.sleep(0)
    assert wait.answers == [twin.long(incremental(1, max_wait_ms=0), VERSION)]
    assert not partition.waiters


async def test_a_request_parks_on_until_there_is_enough(hosted: Hosted) -> None:
    partition = hosted.create("a")
    way, twin = (with_session(hosted, wanted("a", row(0, 0))) for _ in range(2))
    wait = Wait(way, incremental(1, min_bytes=2 * BATCH_BYTES))
    partition.append(batch())
    await asyncio.sleep(0)
    assert not wait.answers
    partition.append(batch())
    await asyncio.sleep(0)
    assert wait.answers == [twin.long(incremental(1, max_wait_ms=0), VERSION)]


@pytest.mark.parametrize("what", ["deleted", "deleted and created anew", "led elsewhere", "records deleted"])
async def test_what_only_the_long_way_can_say_ends_the_wait(hosted: Hosted, what: str) -> None:
    partition = hosted.create("a")
    for _ in range(2):
        partition.append(batch())
    way, twin = (with_session(hosted, wanted("a", row(0, 0))) for _ in range(2))
    for one in (way, twin):
        one.long(incremental(1, wanted("a", row(0, 2)), max_wait_ms=0), VERSION)
    wait = Wait(way, incremental(2, wanted("a", row(0, 2)), min_bytes=2 * BATCH_BYTES))
    if what == "led elsewhere":
        hosted.lead("a", OTHER_ID, 1)
        partition.wake()
    elif what == "records deleted":
        partition.append(batch())
        partition.delete_records(3)
    else:
        hosted.delete("a")
        if what != "deleted":
            hosted.create("a", incarnation=2)
    await asyncio.sleep(0)
    assert wait.answers == [twin.long(incremental(2, wanted("a", row(0, 2)), max_wait_ms=0), VERSION)]
    assert not partition.waiters


async def test_a_request_whose_time_is_up_says_what_there_is(hosted: Hosted) -> None:
    partition = hosted.create("a")
    way, twin = (with_session(hosted, wanted("a", row(0, 0))) for _ in range(2))
    wait = Wait(way, incremental(1, min_bytes=2 * BATCH_BYTES, max_wait_ms=1))
    partition.append(batch())
    async with asyncio.timeout(5):
        while not wait.answers:  # noqa: ASYNC110 - what is waited for is a state, not an event
            await asyncio.sleep(0)
    assert wait.answers == [twin.long(incremental(1, max_wait_ms=0), VERSION)]


async def test_what_comes_in_the_turn_in_which_the_time_is_up_is_answered(hosted: Hosted) -> None:
    partition = hosted.create("a")
    ways = [with_session(hosted, wanted("a", row(0, 0))) for _ in range(3)]
    waits = [Wait(ways[0], incremental(1)), Wait(ways[1], incremental(1, min_bytes=2 * BATCH_BYTES))]
    partition.append(batch())
    for wait in waits:
        wait.parked.expire()
    await asyncio.sleep(0)
    answer = ways[2].long(incremental(1, max_wait_ms=0), VERSION)
    assert [wait.answers for wait in waits] == [[answer], [answer]]
    assert not partition.waiters


async def test_an_answer_that_cannot_be_written_fails_its_request(hosted: Hosted) -> None:
    partition = hosted.create("a")
    wait = Wait(with_session(hosted, wanted("a", row(0, 0))), incremental(1))
    assert isinstance(wait.parked, ParkedFetch)
    wait.parked._context.correlation_id = 1 << 31
    partition.append(batch())
    await asyncio.sleep(0)
    assert len(wait.failures) == 1 and not wait.answers and not partition.waiters


async def test_a_request_that_is_given_up_leaves_no_waiter_and_calls_nobody(hosted: Hosted) -> None:
    partition = hosted.create("a")
    way = with_session(hosted, wanted("a", row(0, 0)))
    wait = Wait(way, incremental(1, min_bytes=2 * BATCH_BYTES))
    partition.append(batch())
    await asyncio.sleep(0)
    partition.append(batch())
    wait.parked.cancel()
    await asyncio.sleep(0)
    assert not wait.answers and not wait.failures and not partition.waiters
