"""Fetch sessions: epochs, incremental changes, what counts as news, eviction (KIP-227)."""

from __future__ import annotations

from itertools import count

import pytest

from broker.api.fetch_sessions import EVICTABLE_AFTER_MS, MAX_EPOCH, FetchSessions, Opened, Wanted
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

BY_NAME = 12
BY_ID = 13


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def request(
    *partitions: tuple[str, int], session_id: int = 0, epoch: int = 0, forget: tuple[tuple[str, int], ...] = ()
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=[FetchPartition(partition=index)]) for topic, index in partitions],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[index]) for topic, index in forget],
    )


def sessions(slots: int = 10, clock: Clock | None = None) -> FetchSessions:
    ids = count(100)
    return FetchSessions(slots, lambda: next(ids), clock or Clock())


def opened_session(all_sessions: FetchSessions, *partitions: tuple[str, int], version: int = BY_NAME) -> int:
    opened = all_sessions.open(request(*partitions), version)
    session = all_sessions.create(opened.wanted, version)
    assert session is not None
    return session.id


def refused(opened: Opened) -> ErrorCode:
    assert opened.session is None and not opened.wanted
    return opened.error


def test_a_full_request_wants_a_session_and_one_with_the_final_epoch_does_not() -> None:
    all_sessions = sessions()
    assert all_sessions.open(request(("a", 0)), BY_NAME).wants_session
    assert not all_sessions.open(request(("a", 0), epoch=-1), BY_NAME).wants_session
    assert len(all_sessions) == 0


def test_epochs_are_expected_in_turn_and_wrap_to_one() -> None:
    all_sessions = sessions()
    session_id = opened_session(all_sessions, ("a", 0))
    for epoch in (1, 2):
        assert all_sessions.open(request(session_id=session_id, epoch=epoch), BY_NAME).session is not None
    assert refused(all_sessions.open(request(session_id=session_id, epoch=2), BY_NAME)) is (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    session = all_sessions.open(request(session_id=session_id, epoch=3), BY_NAME).session
    assert session is not None
    session.epoch = MAX_EPOCH
    assert all_sessions.open(request(session_id=session_id, epoch=MAX_EPOCH), BY_NAME).session is session
    assert session.epoch == 1


def test_an_unknown_session_and_a_change_between_names_and_ids_are_refused() -> None:
    all_sessions = sessions()
    assert refused(all_sessions.open(request(session_id=5, epoch=1), BY_NAME)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session_id = opened_session(all_sessions, ("a", 0))
    assert refused(all_sessions.open(request(session_id=session_id, epoch=1), BY_ID)) is (
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    )


def test_closing_a_session_forgets_it() -> None:
    all_sessions = sessions()
    session_id = opened_session(all_sessions, ("a", 0))
    all_sessions.open(request(("a", 0), session_id=session_id, epoch=-1), BY_NAME)
    assert refused(all_sessions.open(request(session_id=session_id, epoch=1), BY_NAME)) is (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_an_incremental_request_adds_changes_and_forgets_partitions() -> None:
    all_sessions = sessions()
    session_id = opened_session(all_sessions, ("a", 0), ("b", 0))
    changes = request(("c", 0), session_id=session_id, epoch=1, forget=(("a", 0),))
    changes.topics.append(FetchTopic(topic="b", partitions=[FetchPartition(partition=0, fetch_offset=7)]))
    opened = all_sessions.open(changes, BY_NAME)
    assert list(opened.wanted) == [("b", 0), ("c", 0)]
    assert opened.wanted["b", 0].fetch_offset == 7


def test_forgetting_the_last_partition_ends_the_session() -> None:
    all_sessions = sessions()
    session_id = opened_session(all_sessions, ("a", 0))
    opened = all_sessions.open(request(session_id=session_id, epoch=1, forget=(("a", 0),)), BY_NAME)
    assert opened.session is None and not opened.wants_session and not opened.error
    assert len(all_sessions) == 0


def test_a_partition_that_returned_data_is_served_last_next_time() -> None:
    all_sessions = sessions()
    session_id = opened_session(all_sessions, ("a", 0), ("b", 0), ("c", 0))
    session = all_sessions.open(request(session_id=session_id, epoch=1), BY_NAME).session
    assert session is not None
    session.served([("a", 0)])
    assert list(session.wanted) == [("b", 0), ("c", 0), ("a", 0)]


def test_news_are_data_errors_their_end_and_moved_offsets() -> None:
    wanted = Wanted(("a", 0), (0, -1, 0, -1, 1))

    def data(**fields: object) -> PartitionData:
        return PartitionData(high_watermark=5, log_start_offset=0, records=b"", preferred_read_replica=-1, **fields)  # type: ignore[arg-type]

    def is_news(told: PartitionData) -> bool:
        news = wanted.has_news(told, remember=False)
        assert wanted.has_news(told, remember=True) is news, "one that does not go out changes nothing"
        return news

    assert is_news(data())
    assert not is_news(data())
    moved = data()
    moved.high_watermark = 6
    assert is_news(moved)
    assert is_news(data())
    with_records = data()
    with_records.records = b"x"
    assert is_news(with_records)
    failed = data(error_code=3)
    assert is_news(failed) and is_news(failed)
    assert is_news(data())
    assert not is_news(data())


@pytest.mark.parametrize(
    ("idle_ms", "newcomer", "room"),
    [(0, 1, False), (0, 2, True), (EVICTABLE_AFTER_MS + 1, 1, True)],
)
def test_a_full_cache_makes_room_for_larger_newcomers_or_by_dropping_idle_ones(
    idle_ms: int, newcomer: int, room: bool
) -> None:
    clock = Clock()
    all_sessions = sessions(slots=1, clock=clock)
    opened_session(all_sessions, ("a", 0))
    clock.now_ms += idle_ms
    partitions = tuple((f"t{i}", 0) for i in range(newcomer))
    created = all_sessions.create(all_sessions.open(request(*partitions), BY_NAME).wanted, BY_NAME)
    assert (created is not None) is room
    assert len(all_sessions) == 1
    assert all_sessions.evicted_count == int(room)
