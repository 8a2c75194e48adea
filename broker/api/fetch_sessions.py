"""Fetch sessions: what a client fetches is remembered, so that it and we only name what changes. Source: KIP-227.

A session belongs to the process, not to a connection; a restart forgets all of them and clients start anew (error 70).
Bound: max.incremental.fetch.session.cache.slots; when full, a session idle for two minutes or one smaller than the
newcomer makes room, otherwise the newcomer stays without a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.fast.fetch import FIRST_VERSION_WITH_IDS, Row, TopicKey
from protocol.messages.fetch import FetchRequest, PartitionData
from storage.env.clock import Rng

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
EVICTABLE_AFTER_MS: Final = 120_000

Key = tuple[TopicKey, int]
"""(topic name, or topic id from v13 on; partition)"""
Asked = list[tuple[TopicKey, list[Row]]]
"""What a request says of partitions, by topic."""


class Wanted:
    """One partition a client wants, and what it was told of it last."""

    __slots__ = (
        "fetch_offset",
        "had_error",
        "high_watermark",
        "index",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
    )

    def __init__(self, key: Key, row: Row) -> None:
        self.key = key
        self.index, self.leader_epoch, self.fetch_offset, self.last_fetched_epoch, self.max_bytes = row
        self.high_watermark = -1
        self.log_start_offset = -1
        self.had_error = False

    def ask(self, row: Row) -> None:
        """Take over what a request says of the partition."""
        _, self.leader_epoch, self.fetch_offset, self.last_fetched_epoch, self.max_bytes = row

    def has_news(self, data: PartitionData, remember: bool) -> bool:
        """Tell whether an incremental response must name the partition; if it goes out, remember what it says.

        A partition in error is named every time, and once more when the error has gone.
        """
        failed = bool(data.error_code)
        news = (
            failed
            or self.had_error
            or bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
        )
        if remember:
            self.had_error = failed
            self.high_watermark = data.high_watermark
            self.log_start_offset = data.log_start_offset
        return news


class Session:
    """What one client fetches, in the order it is served."""

    __slots__ = ("epoch", "id", "last_used_ms", "uses_ids", "wanted")

    def __init__(self, session_id: int, uses_ids: bool, wanted: dict[Key, Wanted], now_ms: float) -> None:
        self.id = session_id
        self.uses_ids = uses_ids
        self.wanted = wanted
        self.epoch = 1
        self.last_used_ms = now_ms

    def update(self, topics: Asked, forgotten: Iterable[Key]) -> None:
        """Take in the changes an incremental request names.

        To do it twice changes nothing more, unless a partition is both forgotten and named.
        """
        wanted = self.wanted
        for key in forgotten:
            wanted.pop(key, None)
        for topic, rows in topics:
            for row in rows:
                key = (topic, row[0])
                known = wanted.get(key)
                if known is None:
                    wanted[key] = Wanted(key, row)
                else:
                    known.ask(row)

    def advance(self) -> None:
        """Expect the next epoch; after the largest comes 1."""
        self.epoch = self.epoch + 1 if self.epoch < MAX_EPOCH else 1

    def served(self, keys: Iterable[Key]) -> None:
        """Move partitions that returned data behind the others, so that a busy one starves nobody."""
        wanted = self.wanted
        for key in keys:
            if key in wanted:
                wanted[key] = wanted.pop(key)


class Opened(NamedTuple):
    """How a request is to be served: its partitions, and the session they belong to, if any."""

    error: ErrorCode
    wanted: dict[Key, Wanted]
    session: Session | None
    wants_session: bool
    epoch: int = INITIAL_EPOCH
    """The session's epoch after this request."""

    def is_overtaken(self) -> bool:
        """Tell whether another request has gone on with the session while this one was waiting."""
        return self.session is not None and self.session.epoch != self.epoch


def random_session_id(rng: Rng) -> int:
    """Return an id that nobody can guess."""
    return int.from_bytes(rng.random_bytes(4), "big") & 0x7FFFFFFF


class FetchSessions:
    """All sessions of the broker."""

    def __init__(self, slots: int, random_id: Callable[[], int], now_ms: Callable[[], float]) -> None:
        self._slots = slots
        self._random_id = random_id
        self._now_ms = now_ms
        self._sessions: dict[int, Session] = {}  # least recently used first
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions in all sessions together."""
        return sum(len(session.wanted) for session in self._sessions.values())

    def open(self, request: FetchRequest, version: int) -> Opened:
        """Decide what a request asks for.

        An error is one for the whole request: the client then starts over with a full one.
        """
        uses_ids = version >= FIRST_VERSION_WITH_IDS
        epoch = request.session_epoch
        topics = asked_by(request, uses_ids)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return Opened(ErrorCode.NONE, wanted_of(topics), None, epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return _refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            return _refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(topics, forgotten_by(request, uses_ids))
        self.advance(session)
        if not session.wanted:
            del self._sessions[session.id]
            return Opened(ErrorCode.NONE, {}, None, False)
        return Opened(ErrorCode.NONE, session.wanted, session, False, session.epoch)

    def find(self, session_id: int, epoch: int, version: int) -> Session | None:
        """Find the session an incremental request goes on with; None where it is to be told why it cannot."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or session.uses_ids != (version >= FIRST_VERSION_WITH_IDS):
            return None
        return session

    def advance(self, session: Session) -> None:
        """Note that an incremental request is served."""
        session.advance()
        session.last_used_ms = self._now_ms()
        self._sessions[session.id] = self._sessions.pop(session.id)

    def create(self, wanted: dict[Key, Wanted], version: int) -> Session | None:
        """Open a session for a full request, if there is room."""
        if len(self._sessions) >= self._slots and not self._evict(len(wanted)):
            return None
        session_id = self._random_id()
        while session_id == NO_SESSION_ID or session_id in self._sessions:
            session_id = self._random_id()
        session = Session(session_id, version >= FIRST_VERSION_WITH_IDS, wanted, self._now_ms())
        self._sessions[session_id] = session
        return session

    def _evict(self, newcomer_size: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if self._now_ms() - oldest.last_used_ms <= EVICTABLE_AFTER_MS:
            oldest = min(self._sessions.values(), key=lambda session: len(session.wanted))
            if len(oldest.wanted) >= newcomer_size:
                return False
        del self._sessions[oldest.id]
        self.evicted_count += 1
        return True


def wanted_of(topics: Asked) -> dict[Key, Wanted]:
    """List the partitions a request names, in its order; a partition named twice counts once, as named last."""
    return {(topic, row[0]): Wanted((topic, row[0]), row) for topic, rows in topics for row in rows}


def asked_by(request: FetchRequest, uses_ids: bool) -> Asked:
    """Give what a decoded request says of the partitions it names."""
    return [
        (
            topic.topic_id if uses_ids else topic.topic,
            [
                (
                    one.partition,
                    one.current_leader_epoch,
                    one.fetch_offset,
                    one.last_fetched_epoch,
                    one.partition_max_bytes,
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def forgotten_by(request: FetchRequest, uses_ids: bool) -> list[Key]:
    """Give the partitions that a decoded request wants no more of."""
    return [
        (topic.topic_id if uses_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _refused(error: ErrorCode) -> Opened:
    return Opened(error, {}, None, False)
