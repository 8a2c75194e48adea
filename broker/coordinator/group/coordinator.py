"""The group coordinator: routes each group to its shard, and turns parked requests into awaitable answers.

Everything a client can ask of groups goes through here. Without an offsets topic there are no groups: questions are
answered from that, and only a join or a commit creates the topic.
Source: GroupCoordinatorService.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from broker.coordinator.base import Coordinator
from broker.coordinator.errors import (
    CoordinatorError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidGroupId,
    InvalidSessionTimeout,
    NotInTransaction,
    UnknownMemberId,
    WriteFailed,
)
from broker.coordinator.group.commands import (
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group.consumer.commands import JOIN_EPOCH, HeartbeatRequest, HeartbeatResult
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.group.offsets import FetchedTopic, FetchTopic, GroupOffsets
from broker.coordinator.group.records import CommittedOffset
from broker.coordinator.group.shard import AnyGroup, CommitRequest, GroupShard
from broker.coordinator.internal_topics import GROUP_METADATA_TOPIC, InternalTopics, partition_for
from broker.coordinator.log import CoordinatorLog
from broker.coordinator.operations import InTransaction
from broker.coordinator.runtime import RunAside, TaskSpawner
from broker.coordinator.shard import Outcome
from broker.coordinator.timers import TimeSource
from broker.metadata.image import GROUP_RESOURCE, NO_LEADER, ClusterImage, Delta
from broker.partition.errors import NotLeader
from broker.partition.partition import Marker
from broker.partition.verification import NO_SEQUENCE, TransactionVerifier, Writer
from config.build import group_settings
from config.views import ConsumerGroupConfig, GroupConfig, GroupSettings
from protocol.errors import ErrorCode
from storage.env.clock import Rng
from storage.types import TopicPartition

R = TypeVar("R")

NO_EPOCH = -1


def random_member_uuid(rng: Rng) -> str:
    """Return what makes a member's id unique."""
    return str(uuid.UUID(bytes=rng.random_bytes(16), version=4))


class GroupCoordinator(Coordinator[GroupShard]):
    """All groups of this broker."""

    NAME = "group-coordinator"
    TOPIC = GROUP_METADATA_TOPIC

    def __init__(
        self,
        node_id: int,
        log: CoordinatorLog,
        tasks: TaskSpawner,
        time_source: TimeSource,
        config: GroupConfig,
        internal_topics: InternalTopics,
        verifier: TransactionVerifier,
        *,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        error_code: Callable[[BaseException], ErrorCode],
        image: Callable[[], ClusterImage],
        consumer_config: Callable[[], ConsumerGroupConfig],
        run_aside: RunAside,
        max_batch_bytes: int = 1_000_000,
    ) -> None:
        # Before the shards, which need them.
        self._config = config
        self._image = image
        self._consumer_config = consumer_config
        self._world = ConsumerWorld(config, image, self.settings_of, run_aside, now_ms, new_uuid, error_code)
        self._verifier = verifier
        self._new_uuid = new_uuid
        super().__init__(
            node_id,
            log,
            tasks,
            time_source,
            internal_topics,
            now_ms=now_ms,
            error_code=error_code,
            max_batch_bytes=max_batch_bytes,
        )
        self.group_stats = self._world.stats
        self._expiry = self._timers.timer(self._expire_periodically)

    # -- lifecycle --------------------------------------------------------------------------------------------------

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Serve the groups while their partitions are led here; forget offsets of deleted topics."""
        super().publish(delta, image)
        if delta.deleted_topics:
            self.on_topics_deleted(topic.name for topic in delta.deleted_topics)
        if delta.created_topics or self._world.new_topics_version < 0:
            self._world.new_topics_version = image.end_offset - 1
        self._tell_of_topics(delta)

    def _tell_of_topics(self, delta: Delta) -> None:
        """Have consumer groups look at their topics anew: some came, went, or have more partitions."""
        names = {placed.topic.name for placed in delta.created_partitions}
        for topic in delta.deleted_topics:
            names.add(topic.name)
            self._world.hashes.forget(topic.name)
        if names:
            for partition in self._runtime.active_partitions():
                self._runtime.read(partition).consumer.members.on_topics_changed(frozenset(names))

    def partition_of(self, group_id: str) -> int:
        """Give the partition of the offsets topic a group belongs to. Raises: GroupIdNotFound without such a topic."""
        return self._partition(group_id, lambda: GroupIdNotFound(group_id))

    def _start_periodic(self) -> None:
        self._expiry.start(self._config.offsets_retention_check_interval_ms)

    def _new_shard(self, partition: int) -> GroupShard:
        def submit(command: Callable[[], Outcome[None]]) -> None:
            self._runtime.submit(partition, lambda _: command())

        return GroupShard(
            self._config, self._timers, self._now_ms, self._new_uuid, submit, self._world, self._tasks.spawn
        )

    def settings_of(self, group_id: str) -> GroupSettings:
        """Give what is in force for one group of the consumer protocol."""
        return group_settings(self._consumer_config(), self._image().configs.get((GROUP_RESOURCE, group_id), {}))

    async def _partition_for_writing(self, group_id: str) -> int:
        if self.has_no_topic and not await self.ensure_topic():
            raise CoordinatorNotAvailable
        return self.partition_of(group_id)

    # -- membership -------------------------------------------------------------------------------------------------

    async def join(self, request: JoinRequest) -> JoinResult:
        """Take a member in; waits until the generation begins. Raises: CoordinatorError."""
        _ensure_group_id(request.group_id)
        if not self._config.min_session_timeout_ms <= request.session_timeout_ms <= self._config.max_session_timeout_ms:
            raise InvalidSessionTimeout
        partition = await self._partition_for_writing(request.group_id)
        group_id = request.group_id
        while (group := self._runtime.read(partition).consumer_groups.get(group_id)) is not None and group.is_empty:
            await self._runtime.execute(partition, lambda shard: shard.end_empty_consumer_group(group_id))
        return await self._parked(
            partition,
            lambda shard, reply: shard.join(request, reply),
            lambda code: JoinResult(code, request.member_id),
        )

    async def sync(self, request: SyncRequest) -> SyncResult:
        """Give a member its assignment; waits for the leader's. Raises: CoordinatorError."""
        _ensure_group_id(request.group_id)
        partition = self._partition_of_member(request.group_id)
        return await self._parked(partition, lambda shard, reply: shard.sync(request, reply), SyncResult)

    async def _parked(
        self,
        partition: int,
        command: Callable[[GroupShard, Callable[[R], None]], Outcome[None]],
        failed: Callable[[ErrorCode], R],
    ) -> R:
        """Run a command that answers when the group gets there; when it fails, nothing else would ever answer it."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            written = self._runtime.execute_now(
                partition, lambda shard: command(shard, lambda reply: _settle(answer, reply))
            )
        except WriteFailed as failure:
            _settle(answer, failed(self._error_code(failure)))
            written = None
        if written is not None:
            written.add_done_callback(lambda done: self._settle_failure(answer, done, failed))
        return await answer

    def _settle_failure(
        self, answer: asyncio.Future[R], written: asyncio.Future[None], failed: Callable[[ErrorCode], R]
    ) -> None:
        failure = None if written.cancelled() else written.exception()
        if isinstance(failure, CoordinatorError):
            _settle(answer, failed(self._error_code(failure)))
        elif failure is not None and not answer.done():
            answer.set_exception(failure)

    async def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Keep a session alive; NONE while the coordinator loads, since the session then starts anew anyway.

        Raises: CoordinatorError.
        """
        _ensure_group_id(group_id)
        partition = self._partition_of_member(group_id)
        try:
            return await self._runtime.execute(
                partition,
                lambda shard: shard.heartbeat(group_id, member_id, group_instance_id, generation_id),
            )
        except CoordinatorLoading:
            return ErrorCode.NONE

    async def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[LeaveResult]:
        """Remove members. Raises: CoordinatorError."""
        _ensure_group_id(group_id)
        if self.has_no_topic:
            return [LeaveResult(m.member_id, m.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for m in leaving]
        partition = self.partition_of(group_id)
        return await self._runtime.execute(partition, lambda shard: shard.leave(group_id, leaving))

    async def consumer_heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        """Take the report of a member of a consumer group in; a join makes the group. Raises: CoordinatorError."""
        if request.epoch == JOIN_EPOCH:
            partition = await self._partition_for_writing(request.group_id)
        else:
            partition = self.partition_of(request.group_id)
        return await self._runtime.execute(partition, lambda shard: shard.consumer.members.heartbeat(request))

    def _partition_of_member(self, group_id: str) -> int:
        try:
            return self.partition_of(group_id)
        except GroupIdNotFound:
            raise UnknownMemberId from None

    # -- offsets ----------------------------------------------------------------------------------------------------

    async def commit_offsets(self, request: CommitRequest) -> list[ErrorCode]:
        """Store offsets; one code an entry, once they would survive a crash. Raises: CoordinatorError."""
        if request.generation_id < 0:
            partition = await self._partition_for_writing(request.group_id)
        else:
            partition = self.partition_of(request.group_id)
        return await self._runtime.execute(partition, lambda shard: shard.commit_offsets(request), is_combinable=True)

    async def commit_offsets_in_transaction(self, request: CommitRequest, writer: Writer) -> list[ErrorCode]:
        """Store offsets that count once the producer's transaction commits; one code an entry.

        The transaction is verified, or the group's partition put into it, before anything else is looked at.
        Raises: CoordinatorError.
        """
        _ensure_group_id(request.group_id)
        partition = await self._partition_for_writing(request.group_id)
        self._runtime.read(partition)
        tp = TopicPartition(GROUP_METADATA_TOPIC, partition)
        verified = (await self._verifier.verify(writer, {tp: NO_SEQUENCE}))[tp]
        if isinstance(verified, ErrorCode):
            raise NotInTransaction(verified)
        return await self._runtime.execute_in_transaction(
            partition,
            lambda shard: shard.commit_offsets_in_transaction(request),
            InTransaction(writer.producer_id, writer.producer_epoch, verified),
        )

    async def end_transaction(self, partition: int, marker: Marker) -> None:
        """Write a marker to a partition of the offsets topic, and apply or drop what its transaction has committed.

        Raises: NotLeader while the partition's groups are not served here; broker.partition.errors, storage.errors.
        """
        try:
            await self._runtime.end_transaction(partition, marker)
        except CoordinatorError as refusal:
            raise NotLeader(NO_LEADER, NO_EPOCH) from refusal

    async def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[FetchTopic] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[FetchedTopic]:
        """Give committed offsets of named topics, or of all. Raises: CoordinatorError.

        With `require_stable`, commits that are being written are waited for. A member of a consumer group that says
        who it is is told when it is behind.
        """
        if self.has_no_topic:
            return GroupOffsets().fetch(group_id, topics or (), require_stable=False)
        partition = self.partition_of(group_id)

        def fetch(shard: GroupShard) -> list[FetchedTopic]:
            consumer_group = shard.consumer_groups.get(group_id)
            if consumer_group is not None:
                consumer_group.ensure_offset_fetch(member_id=member_id, epoch=member_epoch)
            if topics is None:
                return shard.offsets.fetch_all(group_id, require_stable=require_stable)
            return shard.offsets.fetch(group_id, topics, require_stable=require_stable)

        if require_stable:
            return await self._runtime.execute(partition, lambda shard: Outcome(fetch(shard)))
        return fetch(self._runtime.read(partition))

    async def delete_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> list[ErrorCode]:
        """Delete committed offsets; one code an entry, in order. Raises: CoordinatorError."""
        _ensure_group_id(group_id)
        partition = self.partition_of(group_id)
        return await self._runtime.execute(partition, lambda shard: shard.delete_offsets(group_id, partitions))

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Delete the offsets of deleted topics in every group."""
        deleted = frozenset(topics)
        if not deleted:
            return
        for partition in self._runtime.active_partitions():
            self._runtime.submit(partition, lambda shard: shard.delete_topic_offsets(deleted))

    async def expire_offsets(self) -> None:
        """Delete offsets and groups past their retention."""
        await self._submit_everywhere(lambda shard: shard.expire_offsets())

    def _expire_periodically(self) -> None:
        self._expiry.start(self._config.offsets_retention_check_interval_ms)
        self._tasks.spawn("expire-offsets", self.expire_offsets())

    # -- groups -----------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> AnyGroup:
        """Give a group to look at. Raises: GroupIdNotFound, CoordinatorLoading, NotCoordinator."""
        group = self._runtime.read(self.partition_of(group_id)).find(group_id)
        if group is None:
            raise GroupIdNotFound(group_id)
        return group

    def committed_offsets(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Give a group's committed offsets by topic and partition, to look at. Raises: as `group`."""
        return self._runtime.read(self.partition_of(group_id)).offsets.of_group(group_id)

    def groups(self) -> Iterator[AnyGroup]:
        """Iterate over all groups. Raises: CoordinatorLoading while some partition is not replayed."""
        if self._is_closed:
            raise CoordinatorNotAvailable
        if self._runtime.is_loading:
            raise CoordinatorLoading
        for shard in self.shards():
            yield from shard.all_groups()

    def shards(self) -> list[GroupShard]:
        """Give the partitions that are replayed, for who looks at everything there is, a piece at a time."""
        return [self._runtime.read(partition) for partition in self._runtime.active_partitions()]

    async def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        """Delete groups with their offsets; one code a group, in the order first asked."""
        codes: dict[str, ErrorCode] = dict.fromkeys(group_ids, ErrorCode.GROUP_ID_NOT_FOUND)
        if self._is_closed:
            return dict.fromkeys(group_ids, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._partition_count:
            return codes
        by_partition: dict[int, list[str]] = {}
        for group_id in codes:
            by_partition.setdefault(partition_for(group_id, self._partition_count), []).append(group_id)
        for partition, ids in by_partition.items():
            codes.update(await self._delete_on(partition, ids))
        return codes

    async def _delete_on(self, partition: int, group_ids: list[str]) -> dict[str, ErrorCode]:
        try:
            return await self._runtime.execute(partition, lambda shard: shard.delete_groups(group_ids))
        except CoordinatorError as refusal:
            return dict.fromkeys(group_ids, self._error_code(refusal))


def _ensure_group_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId


def _settle(answer: asyncio.Future[R], result: R) -> None:
    # The connection of a parked request may be gone; the change it asked for stays.
    if not answer.done():
        answer.set_result(result)
