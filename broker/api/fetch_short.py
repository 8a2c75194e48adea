"""The short way of a Fetch: no objects of the codec, no task, one look at each partition.

What consumers send over and over is answered here: a request of a session that goes on, or one without sessions, whose
partitions can all be read. Everything else is left to the long way (`broker.api.fetch`), which begins anew: errors,
diverging epochs, new sessions, clients with a quota. Also a request that has parked goes over to it when, woken, it
meets one of these. Both say the same of the same logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.api.fetch_sessions import FINAL_EPOCH, NO_SESSION_ID, FetchSessions, Key, Opened, Session, Wanted, wanted_of
from broker.api.route import LONG_WAY, RequestContext
from broker.metadata.image import ClusterImage
from broker.partition.manager import PartitionManager
from broker.partition.partition import READ_COMMITTED, Partition
from broker.partition.purgatory import Parked, Purgatory
from protocol.api_keys import ApiKey
from protocol.codec import decode
from protocol.errors import ErrorCode, ProtocolError
from protocol.fast.fetch import FetchFrame, Found, fetch_answer, read_fetch
from protocol.headers import decode_request_header
from protocol.messages.fetch import FetchRequest, FetchResponse
from storage.log.delivery import StepBudget
from storage.segment.region import Region

FIRST_VERSION = 4
LAST_VERSION = 18

PlainFetch = tuple[int, int, str, FetchFrame, bytes]
"""Version, correlation id, client id, what is asked, and the body itself."""
AnswerNow = Callable[[FetchRequest, Opened, RequestContext], FetchResponse]


class _Unreadable(Exception):
    """The long way has something to say of a partition."""


def read_plain(frame: memoryview) -> PlainFetch | None:
    """Read a frame; None for one that the codec has to look at."""
    data = bytes(frame)
    try:
        api_key, version, correlation_id, client_id, position = decode_request_header(data)
    except ProtocolError:
        return None
    if api_key != ApiKey.FETCH or not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    body = data[position:]
    asked = read_fetch(body, 0, version)
    return (version, correlation_id, client_id or "", asked, body) if asked is not None else None


class ShortFetch:
    """Answers what goes the short way."""

    def __init__(
        self,
        partitions: PartitionManager,
        image: Callable[[], ClusterImage],
        sessions: FetchSessions,
        max_bytes: int,
        purgatory: Purgatory,
        answer_now: AnswerNow,
    ) -> None:
        self._partitions = partitions
        self._image = image
        self._sessions = sessions
        self._max_bytes = max_bytes
        self.answer_now = answer_now
        self._purgatory = purgatory
        self._is_stopping = False

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._is_stopping = True

    def serve(self, request: PlainFetch, context: RequestContext) -> list[Any] | ParkedFetch | object:
        """Answer a request, or park it; LONG_WAY leaves it to that, with nothing done that it does not do again."""
        asked = request[3]
        if context.meter is not None:
            return LONG_WAY
        session: Session | None = None
        if asked.session_epoch > 0:
            session = self._sessions.find(asked.session_id, asked.session_epoch, context.api_version)
            if session is None or (asked.forgotten and _names_again(asked)):
                return LONG_WAY
            session.update(asked.topics, asked.forgotten)
            wanted = session.wanted
        elif asked.session_epoch == FINAL_EPOCH and asked.session_id == NO_SESSION_ID:
            wanted = wanted_of(asked.topics)
        else:
            return LONG_WAY
        if not wanted:
            return LONG_WAY
        reading = _Reading(asked, wanted.values(), min(asked.max_bytes, self._max_bytes))
        try:
            for index, one in enumerate(reading.targets):
                reading.partitions.append(self.find(one))
                reading.read(index)
        except Exception:
            reading.release()
            return LONG_WAY
        if session is not None:
            self._sessions.advance(session)
        if reading.found_bytes >= reading.min_bytes or asked.max_wait_ms <= 0 or self._is_stopping:
            return reading.answer(session, context)
        opened = Opened(ErrorCode.NONE, wanted, session, False, session.epoch if session is not None else 0)
        parked = ParkedFetch(self, self._purgatory, reading, opened, context, request[4])
        self._purgatory.park(parked, asked.max_wait_ms)
        return parked

    def find(self, wanted: Wanted) -> Partition:
        """Find a partition that is hosted here. Raises: _Unreadable for any other."""
        topic, index = wanted.key
        if isinstance(topic, str):
            partition = self._partitions.find((topic, index))
        else:
            described = self._image().topics_by_id.get(topic)
            if described is None:
                raise _Unreadable
            partition = self._partitions.find((described.name, index))
            if partition is not None and partition.topic_id != topic:
                raise _Unreadable
        if partition is None:
            raise _Unreadable
        return partition


def _names_again(asked: FetchFrame) -> bool:
    """Tell whether a partition is forgotten and named in one request: no client does that."""
    named = {(topic, row[0]) for topic, rows in asked.topics for row in rows}
    return not named.isdisjoint(asked.forgotten)


class _Reading:
    """The reads of one request; those of a partition stand at its index in each list."""

    __slots__ = (
        "aborted",
        "budget",
        "found_bytes",
        "is_committed",
        "max_bytes",
        "min_bytes",
        "partitions",
        "regions",
        "targets",
    )

    def __init__(self, asked: FetchFrame, wanted: Iterable[Wanted], max_bytes: int) -> None:
        self.targets = list(wanted)
        self.partitions: list[Partition] = []
        self.regions: list[Region | None] = [None] * len(self.targets)
        self.aborted: dict[int, list[tuple[int, int]]] = {}  # of the partitions where there are any
        self.is_committed = asked.isolation_level == READ_COMMITTED
        self.max_bytes = max_bytes
        self.min_bytes = min(asked.min_bytes, max_bytes)
        self.found_bytes = 0
        self.budget: StepBudget | None = None  # for looks at what has come due, once a topic is scheduled

    def read(self, index: int) -> None:
        """Read a partition, also once more. Raises: anything, where the long way has something to say."""
        region = self.regions[index]
        if region is not None:
            self.regions[index] = None
            self.aborted.pop(index, None)
            self.found_bytes -= len(region)
            region.release()
        wanted = self.targets[index]
        partition = self.partitions[index]
        if partition.is_deleted or wanted.last_fetched_epoch >= 0:
            raise _Unreadable
        partition.ensure_leader(wanted.leader_epoch)
        log = partition.log
        offsets = log.offsets
        bound = offsets.last_stable_offset if self.is_committed else offsets.high_watermark
        if log.delivery is not None:
            budget = self.budget
            if budget is None:
                budget = self.budget = StepBudget()
            bound = partition.visible(bound, budget)
        found_bytes = self.found_bytes
        found = log.read(
            wanted.fetch_offset,
            max_bytes=max(0, min(wanted.max_bytes, self.max_bytes - found_bytes)),
            bound=bound,
            min_one_batch=not found_bytes,
        )
        region = found.region
        if region is None:
            return
        self.regions[index] = region
        self.found_bytes = found_bytes + len(region)
        if self.is_committed:
            aborted = log.transactions.aborted_in(wanted.fetch_offset, found)
            if aborted:
                self.aborted[index] = aborted

    def answer(self, session: Session | None, context: RequestContext) -> list[Any]:
        """Give the response; a session's names only what has news."""
        found: list[Found] = []
        served: list[Key] = []
        is_committed = self.is_committed
        regions = self.regions
        for index, wanted in enumerate(self.targets):
            region = regions[index]
            partition = self.partitions[index]
            stats = partition.stats
            stats.fetch_requests += 1
            if region is not None:
                stats.bytes_out += len(region)
            offsets = partition.log.offsets
            high_watermark = offsets.high_watermark
            log_start_offset = offsets.log_start_offset
            if session is not None:
                if region is not None:
                    served.append(wanted.key)
                elif (
                    high_watermark == wanted.high_watermark
                    and log_start_offset == wanted.log_start_offset
                    and not wanted.had_error
                ):
                    continue
                wanted.high_watermark = high_watermark
                wanted.log_start_offset = log_start_offset
                wanted.had_error = False
            topic, number = wanted.key
            aborted = self.aborted.get(index, []) if is_committed else None
            found.append((topic, number, high_watermark, offsets.last_stable_offset, log_start_offset, aborted, region))
        if session is not None and len(served) < len(session.wanted):
            session.served(served)  # when all were, their order stays
        session_id = session.id if session is not None else NO_SESSION_ID
        return fetch_answer(context.api_version, context.correlation_id, session_id, found)

    def release(self) -> None:
        """Give back every region: this answer will not be sent."""
        for region in self.regions:
            if region is not None:
                region.release()


class ParkedFetch(Parked):
    """A request that found too little and waits until a partition it names has changed, or its time is up."""

    __slots__ = ("_answered", "_body", "_context", "_failed", "_index_of", "_opened", "_reading", "_way")

    def __init__(
        self,
        way: ShortFetch,
        purgatory: Purgatory,
        reading: _Reading,
        opened: Opened,
        context: RequestContext,
        body: bytes,
    ) -> None:
        super().__init__(purgatory)
        self._way = way
        self._reading = reading
        self._opened = opened
        self._context = context
        self._body = body  # for the long way
        self._index_of = {partition: index for index, partition in enumerate(reading.partitions)}
        for partition in reading.partitions:
            partition.waiters.add(self)
        self._answered: Callable[[Any], None]
        self._failed: Callable[[Exception], None]

    def begin(self, answered: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Say who is called with the answer."""
        self._answered = answered
        self._failed = failed

    def look(self, changed: set[Any]) -> None:
        """Read what has changed; answer if that is enough, or if the long way has something to say."""
        if self._opened.is_overtaken():
            self._end_plainly()
            return
        reading = self._reading
        try:
            for index in sorted([self._index_of[partition] for partition in changed]):
                if self._way.find(reading.targets[index]) is not reading.partitions[index]:
                    raise _Unreadable
                reading.read(index)
        except Exception:
            self._end_plainly()
            return
        if reading.found_bytes >= reading.min_bytes:
            self._end()

    def expire(self) -> None:
        """Answer with what there is, also with what has come in this very turn, or due though nobody has said so."""
        budget = self._reading.budget
        if budget is not None:
            for partition in self._reading.partitions:
                partition.release_due(budget)  # wakes us if there is any
        if self.changed:
            self.look(self.changed)
            if self.due_tick < 0:
                return
        if self._opened.is_overtaken():
            self._end_plainly()
        else:
            self._end()

    def cancel(self) -> None:
        """Wait no longer: nobody is interested."""
        self._leave()
        self._reading.release()

    def _leave(self) -> None:
        self._purgatory.leave(self)
        for partition in self._reading.partitions:
            partition.waiters.discard(self)

    def _end(self) -> None:
        self._leave()
        try:
            pieces = self._reading.answer(self._opened.session, self._context)
        except Exception as failure:
            self._reading.release()
            self._failed(failure)
            return
        self._answered(pieces)

    def _end_plainly(self) -> None:
        """Have the long way answer."""
        self._leave()
        self._reading.release()
        try:
            request = decode(FetchRequest, self._context.api_version, self._body)
            response = self._way.answer_now(request, self._opened, self._context)
        except Exception as failure:
            self._failed(failure)
            return
        self._answered(response)
