"""A group coordinator in a box: simulated time, a log in memory that can stall, fail and be read back after a crash."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from broker.api.errors import known_code
from broker.api.group_admin import GroupAdminApi
from broker.api.group_classic import GroupClassicApi
from broker.api.group_consumer import GroupConsumerApi
from broker.api.group_find import GroupFindApi
from broker.api.group_offsets import GroupOffsetsApi
from broker.api.group_txn_offsets import GroupTxnOffsetsApi
from broker.api.offset_delete import OffsetDeleteApi
from broker.api.route import RequestContext
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.shard import CommitRequest, OffsetEntry
from broker.coordinator.internal_topics import InternalTopics
from broker.metadata.image import ClusterImage, PartitionImage, TopicImage
from broker.partition.partition import Marker
from broker.partition.verification import Verified, Writer
from config.views import GroupConfig, ListenerConfig
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS, RESPONSES
from protocol.records.batch import parse_header
from protocol.records.control import build_marker
from protocol.records.record import Record, iter_records
from storage.producers.verification import Verification
from storage.types import TopicPartition

LISTENER = ListenerConfig("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 9092, "broker.example", 19092)
NODE_ID = 7
START_MS = 1_700_000_000_000


class StorageDown(Exception):
    """The log directory is offline."""


class BatchTooLarge(Exception):
    """The log refuses the batch for its size."""


CODES = {StorageDown: ErrorCode.KAFKA_STORAGE_ERROR, BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE}


def error_code_of(failure: BaseException) -> ErrorCode:
    """Give the code of what a simulated log fails with, or of a refusal."""
    return CODES.get(type(failure)) or known_code(failure)


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(12):
        await asyncio.sleep(0)


async def run_at_once(call: Callable[[], Any]) -> Any:
    return call()


class Call:
    """A pending call of SimTime."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SimTime:
    """Monotonic and wall time that move only when told to."""

    def __init__(self) -> None:
        self._now_ms = 0.0
        self.wall_offset_ms = START_MS
        self._calls: list[tuple[float, int, Call]] = []
        self._count = itertools.count()

    def now_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return int(self._now_ms) + self.wall_offset_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Call:
        call = Call(callback)
        heapq.heappush(self._calls, (self._now_ms + max(0.0, delay_ms), next(self._count), call))
        return call

    async def advance(self, duration_ms: float) -> None:
        """Let time pass, with everything that falls due on the way, in order."""
        target_ms = self._now_ms + duration_ms
        await settle()
        while self._calls and self._calls[0][0] <= target_ms:
            at_ms, _, call = heapq.heappop(self._calls)
            self._now_ms = max(self._now_ms, at_ms)
            if call.callback is not None:
                call.callback()
            await settle()
        self._now_ms = target_ms


class MemoryLog:
    """The partitions of the offsets topic; survives the coordinator like a disk survives a process."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.failure: Exception | None = None
        self.stall: asyncio.Event | None = None
        self.max_batch_bytes = 1_048_588
        self._next_offsets: dict[int, int] = {}
        self.verifications: list[Verification | None] = []  # what each append had in hand

    async def append(self, partition: int, batch: bytearray, verification: Verification | None = None) -> int:
        self.verifications.append(verification)
        if self.stall is not None:
            await self.stall.wait()
        if self.failure is not None:
            raise self.failure
        if len(batch) > self.max_batch_bytes:
            raise BatchTooLarge
        base_offset = self._next_offsets.get(partition, 0)
        batch[0:8] = base_offset.to_bytes(8, "big")
        self.batches.setdefault(partition, []).append(bytes(batch))
        self._next_offsets[partition] = base_offset + parse_header(batch).record_count
        return self._next_offsets[partition]

    async def append_marker(self, partition: int, marker: Marker) -> int:
        batch = build_marker(
            is_abort=not marker.is_commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=START_MS,
        )
        return await self.append(partition, batch)

    async def scan(self, partition: int) -> AsyncIterator[memoryview]:
        for batch in self.batches.get(partition, ()):
            yield memoryview(batch)

    def leader_epoch(self, partition: int) -> int:
        return 3

    def batch_count(self) -> int:
        return sum(len(batches) for batches in self.batches.values())

    def records(self) -> list[Record]:
        return [
            record
            for partition in sorted(self.batches)
            for batch in self.batches[partition]
            for record in iter_records(batch)
        ]


class Tasks:
    """Starts tasks and remembers them."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task


def topic_image(name: str, topic_id: bytes, partition_count: int) -> TopicImage:
    """Make a topic as the cluster image has it."""
    partition = PartitionImage(NODE_ID, 0, 0, (NODE_ID,), (NODE_ID,), (bytes(16),))
    return TopicImage(name, topic_id, (partition,) * partition_count)


class LedHere:
    """A coordinator of other keys, which leads them all."""

    async def ensure_topic(self) -> bool:
        return True

    def is_led(self, key: str) -> bool:
        return True


class MemoryVerifier:
    """Verifies every transaction, unless a test says how that ends."""

    def __init__(self) -> None:
        self.asked: list[tuple[Writer, dict[TopicPartition, int]]] = []
        self.verification = Verification(0, -1, 0, bumps_epoch=False)
        self.refusal: ErrorCode | None = None

    async def verify(self, writer: Writer, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, Verified]:
        self.asked.append((writer, wanted))
        return dict.fromkeys(wanted, self.refusal or self.verification)


class GroupRig:
    """A coordinator with its API families over simulated parts."""

    def __init__(
        self,
        *,
        log: MemoryLog | None = None,
        time: SimTime | None = None,
        partition_count: int = 4,
        is_started: bool = True,
        **config: Any,
    ) -> None:
        self.log = log or MemoryLog()
        self.time = time or SimTime()
        self.tasks = Tasks()
        self.partition_count = partition_count
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **config})
        self._topic_numbers = itertools.count(100)
        self.topics: dict[str, TopicImage] = {}
        self.features = {"group.version": 1}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.add_topic("t", 3)
        self.add_topic("u", 1)
        self.created: list[str] = []
        self.creation_failure: Exception | None = None
        self._uuids = itertools.count(1)
        self.verifier = MemoryVerifier()
        self.coordinator = GroupCoordinator(
            1,
            self.log,
            self.tasks,
            self.time,
            self.config,
            InternalTopics(self._exists, self._create),
            self.verifier,  # type: ignore[arg-type]  # all that is asked of it
            now_ms=self.time.wall_ms,
            new_uuid=lambda: f"uuid{next(self._uuids)}",
            error_code=error_code_of,
            image=self.image,
            consumer_config=lambda: self.config.consumer,
            run_aside=run_at_once,
        )
        families = (
            GroupFindApi(self.coordinator, LedHere(), NODE_ID),
            GroupClassicApi(self.coordinator),
            GroupConsumerApi(self.coordinator, self.config, self.image),
            GroupOffsetsApi(self.coordinator, self.image),
            GroupTxnOffsetsApi(self.coordinator, self.image),
            OffsetDeleteApi(self.coordinator, self.image),
            GroupAdminApi(self.coordinator),
        )
        self.routes = {route.api_key: route for family in families for route in family.routes()}
        if is_started:
            self.coordinator.serve(partition_count, range(partition_count))

    def restarted(self, **config: Any) -> GroupRig:
        """Start again from what the log holds, as after a crash: nothing of the old process is asked."""
        rig = GroupRig(log=self.log, time=self.time, partition_count=self.partition_count, **config)
        rig._uuids = itertools.count(1000)
        rig.topics, rig.configs, rig.features = self.topics, self.configs, self.features
        rig._topic_numbers = self._topic_numbers
        return rig

    def add_topic(self, name: str, partition_count: int) -> bytes:
        topic_id = next(self._topic_numbers).to_bytes(16, "big")
        self.topics[name] = topic_image(name, topic_id, partition_count)
        return topic_id

    def image(self) -> ClusterImage:
        return ClusterImage(
            "cluster",
            dict(self.topics),
            {t.topic_id: t for t in self.topics.values()},
            features=self.features,
            configs=self.configs,
        )

    async def call(
        self,
        request: Any,
        version: int,
        *,
        client_id: str = "cid",
        handler: Callable[..., Awaitable[Any]] | None = None,
    ) -> Any:
        """Send a request through the wire format of a version, to the handler and back."""
        key = request.API_KEY
        route = self.routes[key]
        assert route.serves(version)
        seen = decode(REQUESTS[key], version, encode_bytes(request, version))
        context = RequestContext(1, LISTENER, "127.0.0.1", key, version, 1, client_id)
        response = await route.handler(seen, context)
        return decode(RESPONSES[key], version, encode_bytes(response, version))

    def start(self, request: Any, version: int, *, client_id: str = "cid") -> asyncio.Task[Any]:
        """Send a request that may park."""
        return self.tasks.spawn("request", self.call(request, version, client_id=client_id))

    async def commit(
        self,
        group_id: str,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        metadata: str = "m",
        retention_time_ms: int = -1,
    ) -> list[ErrorCode]:
        entry = OffsetEntry(topic, self.topics[topic].topic_id, partition, offset, 0, metadata)
        return await self.coordinator.commit_offsets(
            CommitRequest(group_id, generation_id, member_id, None, retention_time_ms, [entry])
        )

    async def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """Give all committed offsets of a group."""
        topics = await self.coordinator.fetch_offsets(group_id, None, require_stable=False)
        return {(topic.topic, p.partition): p.offset for topic in topics for p in topic.partitions}

    def _exists(self, topic: str) -> bool:
        return topic in self.created

    async def _create(self, topic: str) -> None:
        await asyncio.sleep(0)
        if self.creation_failure is not None:
            raise self.creation_failure
        self.created.append(topic)
        self.coordinator.serve(self.partition_count, range(self.partition_count))
