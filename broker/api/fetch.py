"""Fetch (key 1). Served: 4 to 18.

- v4 isolation level; v5 log start offsets; v7 sessions; v9 leader epochs; v11 rack; v12 flexible, epoch divergence;
  v13 topic ids; v16 node endpoints; v17, v18 replica fields we have no use for.
- Data leave as file regions, never read here. Only whole batches are returned; the reference may cut the last one.
- On a scheduled topic nothing is given at or above the first batch that is not due; what is told of the partition, high
  watermark and last stable offset, does not depend on that. A wait ends when enough has come due.
- The first partition that has data returns its first batch whole, whatever the limits; else a consumer would be stuck
  on a large batch for ever (KIP-74).
- An answer over the client's quota is not given: it is told nothing but how long to wait, and asks again (KIP-219).

A fetch that finds too little parks until a partition it names has changed or its time is up. Source:
KafkaApis.handleFetchRequest, DelayedFetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from broker.api.errors import code_of
from broker.api.fetch_sessions import FetchSessions, Key, Opened, Wanted
from broker.api.fetch_short import FIRST_VERSION, LAST_VERSION, PlainFetch, ShortFetch, read_plain
from broker.api.leaders import Leaders
from broker.api.route import Plain, RequestContext, Route
from broker.metadata.image import ClusterImage
from broker.partition.errors import InconsistentTopicIdRequested, UnknownPartition, UnknownTopicId
from broker.partition.manager import PartitionManager
from broker.partition.partition import READ_COMMITTED, Partition
from broker.partition.purgatory import Parked, Purgatory, Waiter
from broker.quota.clients import RequestMeter
from protocol.api_keys import ApiKey
from protocol.codec import encode
from protocol.errors import ErrorCode
from protocol.fast.fetch import TopicKey
from protocol.frame import SIZE_BYTES
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from storage.errors import OffsetOutOfRange, StorageFailure
from storage.log.delivery import StepBudget
from storage.segment.region import Region

FIRST_VERSION_WITH_STORAGE_ERROR: Final = 6
FIRST_VERSION_WITH_LEADERS: Final = 12
FIRST_VERSION_WITH_ENDPOINTS: Final = 16
NO_ID: Final = bytes(16)


class FetchApi:
    """Answers consumers."""

    def __init__(
        self,
        partitions: PartitionManager,
        image: Callable[[], ClusterImage],
        sessions: FetchSessions,
        leaders: Leaders,
        max_bytes: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._partitions = partitions
        self._image = image
        self._sessions = sessions
        self._leaders = leaders
        self._max_bytes = max_bytes
        self._purgatory = Purgatory(self._loop)
        self._is_stopping = False
        self._short_way = ShortFetch(partitions, image, sessions, max_bytes, self._purgatory, self.answer_now)

    def stop(self) -> None:
        """Answer who is parked with what there is, and let nobody wait any more: the broker stops."""
        self._is_stopping = True
        self._short_way.stop()
        self._purgatory.expire_all()

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.FETCH, FIRST_VERSION, LAST_VERSION, self.fetch, Plain(read_plain, self.serve_plain)),)

    def serve_plain(self, request: PlainFetch, context: RequestContext) -> list[Any] | Parked | object:
        """Answer or park what goes the short way."""
        return self._short_way.serve(request, context)

    async def fetch(self, request: FetchRequest, context: RequestContext) -> FetchResponse:
        """Read, wait if there is too little, and answer."""
        opened = self._sessions.open(request, context.api_version)
        if opened.error:
            return FetchResponse(error_code=opened.error)
        reading = _Reading(self, request, context, opened.wanted)
        try:
            reading.read_all()
            if not reading.is_satisfied() and request.max_wait_ms > 0 and not self._is_stopping:
                await self._park(reading, opened, request.max_wait_ms)
            if opened.is_overtaken():
                reading.release()
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if context.meter is not None:
                return self._answer_metered(context.meter, reading, opened, context)
            return self._answer(reading, opened, context)
        except BaseException:
            reading.release()
            raise

    async def _park(self, reading: _Reading, opened: Opened, wait_ms: int) -> None:
        waiter = Waiter(self._purgatory, self._loop, wait_ms)
        partitions = [partition for partition in reading.partitions.values() if partition is not None]
        for partition in partitions:
            partition.waiters.add(waiter)
        try:
            while await waiter.wait():
                if opened.is_overtaken() or self._is_stopping:
                    return
                reading.read_again(waiter.take())
                if reading.is_satisfied():
                    return
            reading.release_due()  # though the scheduler should be late
            reading.read_again(waiter.take())
        finally:
            waiter.leave()
            for partition in partitions:
                partition.waiters.discard(waiter)

    def _answer_metered(
        self, meter: RequestMeter, reading: _Reading, opened: Opened, context: RequestContext
    ) -> FetchResponse:
        """Answer unless the client's quota is exceeded; its session then has been told nothing."""

        def size() -> int:
            """Return the size of the answer without its header, as Kafka counts it."""
            answer = self._answer(reading, opened, context, goes_out=False)
            return SIZE_BYTES + sum(map(len, encode(answer, context.api_version)))

        if meter.may_fetch(size):
            return self._answer(reading, opened, context)
        reading.release()
        return FetchResponse(session_id=opened.session.id if opened.session is not None else 0)

    def _answer(
        self, reading: _Reading, opened: Opened, context: RequestContext, *, goes_out: bool = True
    ) -> FetchResponse:
        """Describe what was read. One that does not go out changes nothing."""
        session = opened.session
        is_incremental = session is not None
        if opened.wants_session and goes_out:
            session = self._sessions.create(opened.wanted, context.api_version)
        topics: list[FetchableTopicResponse] = []
        last_topic: str | bytes | None = None
        served: list[Key] = []
        for key, data in reading.results.items():
            partition = reading.partitions[key]
            if goes_out and partition is not None and not data.error_code:
                partition.stats.fetch_requests += 1
                partition.stats.bytes_out += len(data.records or b"")
            if session is not None:
                has_news = opened.wanted[key].has_news(data, goes_out)
                if is_incremental and not has_news:
                    continue
                if data.records:
                    served.append(key)
            if key[0] != last_topic:
                last_topic = key[0]
                topics.append(_topic_response(key[0]))
            topics[-1].partitions.append(data)
        if session is not None and goes_out:
            session.served(served)
        response = FetchResponse(session_id=session.id if session is not None else 0, responses=topics)
        if reading.leader_ids and context.api_version >= FIRST_VERSION_WITH_ENDPOINTS:
            response.node_endpoints = self._leaders.fill(reading.leader_ids, NodeEndpoint, context)
        return response

    # --- one partition ---

    def find(self, wanted: Wanted) -> Partition:
        """Find the partition a client names. Raises: broker.partition.errors."""
        name, index = wanted.key
        if isinstance(name, str):
            return self._partitions.find((name, index)) or self._partitions.get(name, index)
        topic = self._image().topics_by_id.get(name)
        if topic is None:
            raise UnknownTopicId
        partition = self._partitions.get(topic.name, index)
        if partition.topic_id != name:
            raise InconsistentTopicIdRequested
        return partition

    def failure(
        self, wanted: Wanted, partition: Partition | None, failure: Exception, context: RequestContext
    ) -> PartitionData:
        """Describe a partition that cannot be read."""
        code = code_of(failure, context)
        self._partitions.traffic.refused_fetch(partition.tp.topic if partition is not None else None, failure)
        if isinstance(failure, StorageFailure):
            self._partitions.fail_dir_of(failure)
        if code is ErrorCode.KAFKA_STORAGE_ERROR and context.api_version < FIRST_VERSION_WITH_STORAGE_ERROR:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = PartitionData(
            partition_index=wanted.index,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=b"",
        )
        if partition is not None and context.api_version >= FIRST_VERSION_WITH_LEADERS:
            leader = self._leaders.current(partition.tp.topic, partition.tp.partition, failure)
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        return data

    @property
    def max_bytes(self) -> int:
        """The broker's own limit of one response (fetch.max.bytes)."""
        return self._max_bytes

    def answer_now(self, request: FetchRequest, opened: Opened, context: RequestContext) -> FetchResponse:
        """Answer a request that waits no longer, with what there is."""
        if opened.is_overtaken():
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        reading = _Reading(self, request, context, opened.wanted)
        try:
            reading.read_all()
            return self._answer(reading, opened, context)
        except BaseException:
            reading.release()
            raise


def _topic_response(topic: TopicKey) -> FetchableTopicResponse:
    if isinstance(topic, str):
        return FetchableTopicResponse(topic=topic, topic_id=NO_ID, partitions=[])
    return FetchableTopicResponse(topic="", topic_id=topic, partitions=[])


class _Reading:
    """The reads of one request: what each partition gave, and whether that is enough."""

    __slots__ = (
        "_api",
        "_budget",
        "_context",
        "_found_bytes",
        "_has_outcome",
        "_isolation_level",
        "_max_bytes",
        "_min_bytes",
        "_regions",
        "_wanted",
        "leader_ids",
        "partitions",
        "results",
    )

    def __init__(
        self, api: FetchApi, request: FetchRequest, context: RequestContext, wanted: dict[Key, Wanted]
    ) -> None:
        max_bytes = min(request.max_bytes, api.max_bytes)
        if context.meter is not None:
            max_bytes = min(max_bytes, context.meter.fetch_limit_bytes())
        self._api = api
        self._budget = StepBudget()  # for looks at what has come due
        self._context = context
        self._wanted = wanted
        self._isolation_level = request.isolation_level
        self._max_bytes = max_bytes
        self._found_bytes = 0
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._has_outcome = not wanted  # an error or divergence: nothing to wait for
        self._regions: dict[Key, Region] = {}  # what leaves with the answer; released here only if it does not
        self.results: dict[Key, PartitionData] = {}
        self.partitions: dict[Key, Partition | None] = {}
        self.leader_ids: set[int] = set()

    def is_satisfied(self) -> bool:
        """Tell whether the answer can go out at once."""
        return self._has_outcome or self._found_bytes >= self._min_bytes

    def read_all(self) -> None:
        """Read every partition, in order."""
        for key, wanted in self._wanted.items():
            self.results[key] = self._read(key, wanted)

    def read_again(self, changed: set[Partition]) -> None:
        """Read the partitions that have changed since."""
        for key, partition in self.partitions.items():
            if partition in changed:
                self._give_back(key)
                self.results[key] = self._read(key, self._wanted[key])

    def release_due(self) -> None:
        """Have every partition release what has come due; it wakes us if there is any."""
        for partition in self.partitions.values():
            if partition is not None:
                partition.release_due(self._budget)

    def _read(self, key: Key, wanted: Wanted) -> PartitionData:
        partition: Partition | None = None
        try:
            partition = self.partitions[key] = self._api.find(wanted)
            if partition.is_deleted:
                raise UnknownPartition(f"Topic {partition.tp.topic} was deleted.")
            return self._read_log(key, wanted, partition)
        except Exception as failure:
            self._give_back(key)
            self._has_outcome = True
            self.partitions.setdefault(key, None)
            data = self._api.failure(wanted, partition, failure, self._context)
            if data.current_leader.leader_id >= 0:
                self.leader_ids.add(data.current_leader.leader_id)
            return data

    def _read_log(self, key: Key, wanted: Wanted, partition: Partition) -> PartitionData:
        partition.ensure_leader(wanted.leader_epoch)
        log = partition.log
        data = PartitionData(
            partition_index=wanted.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if epoch < 0:
                raise OffsetOutOfRange(wanted.fetch_offset, log.log_start_offset, log.log_end_offset)
            if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                self._has_outcome = True
                return data
        bound = partition.visible(partition.bound(self._isolation_level), self._budget)
        found = log.read(
            wanted.fetch_offset,
            max_bytes=max(0, min(wanted.max_bytes, self._max_bytes - self._found_bytes)),
            bound=bound,
            min_one_batch=not self._found_bytes,
        )
        if found.region is not None:
            data.records = self._regions[key] = found.region
            self._found_bytes += len(found.region)
        if self._isolation_level == READ_COMMITTED:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in log.transactions.aborted_in(wanted.fetch_offset, found)
            ]
        return data

    def _give_back(self, key: Key) -> None:
        region = self._regions.pop(key, None)
        if region is not None:
            self._found_bytes -= len(region)
            region.release()

    def release(self) -> None:
        """Give back every region: the answer will not be sent."""
        for region in self._regions.values():
            region.release()
