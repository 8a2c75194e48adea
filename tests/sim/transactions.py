"""A transaction coordinator in a box: simulated time, a log in memory, partitions that take its markers or refuse."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from broker.api.errors import known_code
from broker.api.group_find import GroupFindApi
from broker.api.producers import ProducersApi
from broker.api.route import RequestContext
from broker.api.transaction_admin import TransactionAdminApi
from broker.api.transactions import TransactionsApi
from broker.coordinator.internal_topics import InternalTopics
from broker.coordinator.producer_ids import ProducerIds
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.markers import MarkerSender
from broker.coordinator.transaction.state import Producer, Transaction
from broker.metadata.controller.producer_ids import ProducerIdBlock
from broker.metadata.image import ClusterImage, TopicImage
from config.views import TransactionConfig
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS, RESPONSES
from storage.errors import InvalidProducerEpoch
from storage.types import TopicPartition
from tests.sim.groups import CODES, LISTENER, NODE_ID, GroupRig, MemoryLog, SimTime, Tasks, run_at_once, topic_image

MARKER_CODES = {**CODES, InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH}

TOPICS = {"t": 3, "u": 2}


def code_of(failure: BaseException) -> ErrorCode:
    return MARKER_CODES.get(type(failure)) or known_code(failure)


class WrittenMarker(NamedTuple):
    """A marker in a partition's log."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


class WrittenData(NamedTuple):
    """A batch of a transaction in a partition's log; `number` tells the tests which one."""

    producer_id: int
    producer_epoch: int
    number: int


class MarkedPartitions:
    """The partitions that transactions write to, as far as transactions go; they survive the coordinator."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, list[WrittenData | WrittenMarker]] = {}
        self.failures: dict[TopicPartition, BaseException] = {}
        self.stall: asyncio.Event | None = None
        self.attempts = 0

    async def write(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        self.attempts += 1
        if self.stall is not None:
            await self.stall.wait()
        if tp in self.failures:
            raise self.failures[tp]
        known_epoch = self._epoch(tp, producer_id)
        if producer_epoch <= known_epoch if transaction_version >= 2 else producer_epoch < known_epoch:
            raise InvalidProducerEpoch("the partition knows a later epoch")
        marker = WrittenMarker(producer_id, producer_epoch, is_commit, coordinator_epoch)
        self.logs.setdefault(tp, []).append(marker)

    def produce(self, tp: TopicPartition, data: WrittenData) -> bool:
        """Append a batch as a producer does; False when it is fenced."""
        if data.producer_epoch < self._epoch(tp, data.producer_id):
            return False
        self.logs.setdefault(tp, []).append(data)
        return True

    def _epoch(self, tp: TopicPartition, producer_id: int) -> int:
        return max((one.producer_epoch for one in self.logs.get(tp, ()) if one.producer_id == producer_id), default=-1)

    def markers(self, tp: TopicPartition) -> list[WrittenMarker]:
        return [one for one in self.logs.get(tp, ()) if isinstance(one, WrittenMarker)]

    def committed(self, tp: TopicPartition) -> tuple[list[int], list[int]]:
        """Read like a consumer of committed data: the numbers it sees, and those nobody has decided about."""
        seen: list[int] = []
        undecided: dict[int, list[int]] = {}
        for one in self.logs.get(tp, ()):
            if isinstance(one, WrittenData):
                undecided.setdefault(one.producer_id, []).append(one.number)
            else:
                numbers = undecided.pop(one.producer_id, [])
                seen.extend(numbers if one.is_commit else ())
        return seen, [number for numbers in undecided.values() for number in numbers]


class TransactionRig:
    """A coordinator with its API families over simulated parts; `restarted` is what a crash leaves."""

    def __init__(
        self,
        *,
        log: MemoryLog | None = None,
        time: SimTime | None = None,
        partitions: MarkedPartitions | None = None,
        server_version: int = 2,
        partition_count: int = 4,
        first_producer_id: int = 1_000,
        is_started: bool = True,
        **config: int,
    ) -> None:
        self.log = log or MemoryLog()
        self.time = time or SimTime()
        self.partitions = partitions or MarkedPartitions()
        self.tasks = Tasks()
        self.server_version = server_version
        self.partition_count = partition_count
        self.topics: dict[str, TopicImage] = {}
        for name, count in TOPICS.items():
            self.add_topic(name, count)
        self.created: list[str] = []
        self.creation_failure: Exception | None = None
        self.next_producer_id = first_producer_id
        self.config = TransactionConfig(**config)
        self.producer_ids = ProducerIds(self._allocate)
        self.groups = GroupRig(time=self.time, is_started=False)
        self.coordinator = TransactionCoordinator(
            NODE_ID,
            self.log,
            self.tasks,
            self.time,
            self.config,
            InternalTopics(lambda name: name in self.created, self._create),
            self.producer_ids,
            MarkerSender(self.partitions.write, lambda tp: self.image().partition(tp) is not None, code_of, self.time),
            now_ms=self.time.wall_ms,
            server_version=lambda: self.server_version,
            error_code=code_of,
            run_aside=run_at_once,
        )
        families = (
            ProducersApi(self.producer_ids, self.coordinator),
            TransactionsApi(self.coordinator, self.groups.coordinator, self.image),
            TransactionAdminApi(self.coordinator),
            GroupFindApi(self.groups.coordinator, self.coordinator, NODE_ID),
        )
        self.routes = {route.api_key: route for family in families for route in family.routes()}
        if is_started:
            self.coordinator.serve(partition_count, range(partition_count))

    def restarted(self, **changes: Any) -> TransactionRig:
        """Start again from what the logs hold, as after a crash: nothing of the old process is asked."""
        # Else the timers of the dead process would go on writing to the log.
        self.coordinator.close()
        for task in self.tasks.running:
            task.cancel()
        settings = {"server_version": self.server_version, **self.config._asdict(), **changes}
        return TransactionRig(
            log=self.log,
            time=self.time,
            partitions=self.partitions,
            partition_count=self.partition_count,
            first_producer_id=self.next_producer_id,
            **settings,
        )

    def add_topic(self, name: str, partition_count: int) -> None:
        self.topics[name] = topic_image(name, (len(self.topics) + 1).to_bytes(16, "big"), partition_count)

    def image(self) -> ClusterImage:
        return ClusterImage("cluster", dict(self.topics), {t.topic_id: t for t in self.topics.values()})

    def state(self, transactional_id: str) -> Transaction:
        return self.coordinator.describe(transactional_id)

    def markers(self, topic: str, partition: int) -> list[WrittenMarker]:
        return self.partitions.markers(TopicPartition(topic, partition))

    async def begin(self, transactional_id: str, *partitions: tuple[str, int], version: int = 0) -> Producer:
        """Give a producer its id, and begin a transaction if partitions are named."""
        producer = await self.coordinator.initialize(transactional_id, 60_000, None)
        if partitions:
            added = [TopicPartition(*one) for one in partitions]
            await self.coordinator.add_partitions(transactional_id, producer, added, client_version=version)
        return producer

    async def call(self, request: Any, version: int) -> Any:
        """Send a request through the wire format of a version, to the handler and back."""
        key = request.API_KEY
        route = self.routes[key]
        assert route.serves(version)
        seen = decode(REQUESTS[key], version, encode_bytes(request, version))
        context = RequestContext(1, LISTENER, "127.0.0.1", key, version, 1, "cid")
        response = await route.handler(seen, context)
        return decode(RESPONSES[key], version, encode_bytes(response, version))

    async def _allocate(self) -> ProducerIdBlock:
        block = ProducerIdBlock(self.next_producer_id, 10)
        self.next_producer_id += 10
        return block

    async def _create(self, topic: str) -> None:
        if self.creation_failure is not None:
            raise self.creation_failure
        self.created.append(topic)
        self.coordinator.serve(self.partition_count, range(self.partition_count))
