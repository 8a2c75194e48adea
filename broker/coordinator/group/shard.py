"""The groups and offsets of one partition of `__consumer_offsets`: replay, and the commands that are not membership.

Stored state is `GroupMetadata`, `OffsetCommit` and the records of consumer groups; whatever else a group has (parked
requests, sessions) is in memory and starts anew after a load. A group exists when it has a record, an offset, or
somebody in it; it is of one kind at a time, so its id is in one of the two maps.
Source: GroupCoordinatorShard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from broker.coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
)
from broker.coordinator.group.classic import ClassicGroups
from broker.coordinator.group.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.commands import (
    JoinReply,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.records import group_tombstones
from broker.coordinator.group.consumer.replay import CONSUMER_GROUP_TYPES, ConsumerGroupReplay
from broker.coordinator.group.consumer.rooms import ConsumerRooms, Spawn
from broker.coordinator.group.consumer.world import ConsumerWorld
from broker.coordinator.group.expiry import expired_offsets
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.rebalance import Rebalancer, Submit
from broker.coordinator.group.records import (
    GROUP_TYPE,
    LEGACY_OFFSET_TYPE,
    NO_TIMESTAMP,
    NOT_IN_LOG,
    OFFSET_TYPE,
    CommittedOffset,
    OffsetKey,
    ParsedOffset,
    group_tombstone,
    offset_record,
    offset_tombstone,
    parse_group_key,
    parse_group_value,
    parse_offset_key,
    parse_offset_value,
    record_type,
)
from broker.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE
from broker.coordinator.shard import CoordinatorRecord, Outcome
from broker.coordinator.timers import Timers
from config.views import GroupConfig
from protocol.errors import ErrorCode
from protocol.stored.group import GroupMetadataValue, MemberMetadata

logger = logging.getLogger(__name__)

NO_RETENTION_TIME = -1

_new_tuple = tuple.__new__


class OffsetEntry(NamedTuple):
    """One partition's part of a commit."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class CommitRequest(NamedTuple):
    """A commit of offsets of partitions that exist."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    entries: Sequence[OffsetEntry]
    knows_member_epochs: bool = True
    """From v9 on; members of consumer groups need it."""


AnyGroup = ClassicGroup | ConsumerGroup


class GroupShard:
    """The state machine of one partition."""

    def __init__(
        self,
        config: GroupConfig,
        timers: Timers,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], str],
        submit: Submit,
        world: ConsumerWorld,
        spawn: Spawn,
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        # Classic groups and consumer groups.
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.offsets = GroupOffsets()
        self._stats = world.stats
        self._error_code = world.error_code
        self._rebalancer = Rebalancer(self.groups, config, timers, now_ms, submit, self.offsets.has_offsets)
        self.classic = ClassicGroups(
            self.groups, config, self._rebalancer, now_ms, new_uuid, world.stats, world.error_code
        )
        self.consumer = ConsumerRooms(self.consumer_groups, self.groups, world, timers, submit, spawn, self._rebalancer)
        self._consumer_replay = ConsumerGroupReplay(
            self.consumer_groups,
            on_created=self._forget,
            on_member_gone=self.consumer.timers.drop,
            on_deleted=self._keep_for_offsets,
        )

    def find(self, group_id: str) -> AnyGroup | None:
        """Give a group of any kind."""
        return self.groups.get(group_id) or self.consumer_groups.get(group_id)

    def all_groups(self) -> Iterator[AnyGroup]:
        """Iterate over the groups of all kinds."""
        yield from self.groups.values()
        yield from self.consumer_groups.values()

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Apply a stored record; record types of other coordinators are passed over."""
        parsed = record.parsed
        if parsed is not None:
            if type(parsed) is not ParsedOffset:
                self._consumer_replay.apply_parsed(parsed)
                return
            key, committed = parsed
            self._replay_offset(key, _new_tuple(CommittedOffset, (*committed[:-1], offset)), producer_id)
            return
        kind = record_type(record.key)
        if kind in (LEGACY_OFFSET_TYPE, OFFSET_TYPE):
            key = parse_offset_key(record.key)
            value = record.value
            self._replay_offset(
                key, None if value is None else parse_offset_value(value, record_offset=offset), producer_id
            )
        elif kind == GROUP_TYPE:
            group_id = parse_group_key(record.key)
            self._forget(group_id)
            if record.value is not None:
                self.consumer_groups.pop(group_id, None)
                self.groups[group_id] = self._stored_group(group_id, parse_group_value(record.value))
        elif kind in CONSUMER_GROUP_TYPES:
            self._consumer_replay.apply(kind, record)

    def _replay_offset(self, key: OffsetKey, committed: CommittedOffset | None, producer_id: int) -> None:
        self.offsets.replay(key, committed, producer_id)
        group_id = key.group_id
        if group_id not in self.groups and group_id not in self.consumer_groups and committed is not None:
            self.groups[group_id] = self._rebalancer.new_group(group_id)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply a transaction's marker."""
        self.offsets.replay_end_transaction(producer_id, is_commit=is_commit)

    def on_loaded(self) -> None:
        """Give every stored member a session: those that are gone do not renew it."""
        for group in list(self.groups.values()):
            for member in group.members.values():
                member.refresh_session()
            if len(group.members) > self._config.max_size:
                self._rebalancer.prepare_rebalance(group, "loaded group is over group.max.size")
        self.consumer.members.on_loaded()

    def on_unloaded(self) -> None:
        """Send whoever is parked to look for the coordinator."""
        for group_id in list(self.groups):
            self._forget(group_id)
        self.consumer.timers.drop_all()

    def _keep_for_offsets(self, group_id: str) -> None:
        """Go on as a group that only keeps offsets, if a consumer group that ends has left any."""
        if self.offsets.has_offsets(group_id):
            self.groups[group_id] = self._rebalancer.new_group(group_id)

    def _forget(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        group.transition_to(GroupState.DEAD, now_ms=self._now_ms())
        group.join_timer.cancel()
        group.sync_timer.cancel()
        for member in group.members.values():
            member.session.cancel()
            group.complete_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            group.complete_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        for member_id in list(group.pending_members):
            group.drop_pending(member_id)

    def _stored_group(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        group = self._rebalancer.new_group(group_id)
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        timestamp_ms = value.current_state_timestamp
        group.state_timestamp_ms = None if timestamp_ms == NO_TIMESTAMP else timestamp_ms
        for stored in value.members:
            request = _request_of(group_id, value, stored)
            session = self._rebalancer.session_timer(group_id, stored.member_id)
            member = ClassicMember(stored.member_id, request, session)
            member.assignment = stored.assignment
            group.add(member, None)
        if value.members:
            group.state = GroupState.STABLE
        group.subscribed_topics = group.compute_subscribed_topics()
        return group

    # -- members of the classic protocol, in groups of either kind ----------------------------------------------------

    def join(self, request: JoinRequest, reply: JoinReply) -> Outcome[None]:
        """Take a member in."""
        group = self.consumer_groups.get(request.group_id)
        if group is None:
            return self.classic.join(request, reply)
        return self.consumer.classic_members.join(group, request, reply)

    def sync(self, request: SyncRequest, reply: SyncReply) -> Outcome[None]:
        """Give a member its assignment."""
        group = self.consumer_groups.get(request.group_id)
        if group is None:
            return self.classic.sync(request, reply)
        return self.consumer.classic_members.sync(group, request, reply)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Outcome[ErrorCode]:
        """Keep a member alive. Raises: UnknownMemberId, FencedInstanceId, IllegalGeneration."""
        group = self.consumer_groups.get(group_id)
        if group is None:
            return self.classic.heartbeat(group_id, member_id, group_instance_id, generation_id)
        return self.consumer.classic_members.heartbeat(group, member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Outcome[list[LeaveResult]]:
        """Remove members; each has its own result."""
        group = self.consumer_groups.get(group_id)
        if group is None:
            return self.classic.leave(group_id, leaving)
        return self.consumer.classic_members.leave(group, leaving)

    # -- offsets ----------------------------------------------------------------------------------------------------

    def commit_offsets(self, request: CommitRequest) -> Outcome[list[ErrorCode]]:
        """Store offsets; one code an entry, in order.

        Raises: GroupIdNotFound for an unknown group with a generation, and what the group refuses the member with.
        """
        group = self.find(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise GroupIdNotFound(request.group_id)
        elif isinstance(group, ConsumerGroup):
            self._ensure_consumer_commit(group, request, is_transactional=False)
        else:
            member = group.ensure_offset_commit(
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation_id=request.generation_id,
                is_transactional=False,
            )
            if member is not None:
                member.refresh_session()
        return self._stored(request)

    def commit_offsets_in_transaction(self, request: CommitRequest) -> Outcome[list[ErrorCode]]:
        """Store offsets that count once a transaction commits; as commit_offsets, but a member need not say who it is.

        Raises: IllegalGeneration for an unknown group with a generation, and what the group refuses the member with.
        """
        group = self.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            try:
                self._ensure_consumer_commit(group, request, is_transactional=True)
            except StaleMemberEpoch:
                raise IllegalGeneration from None
        elif group is not None:
            group.ensure_offset_commit(
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                generation_id=request.generation_id,
                is_transactional=True,
            )
        elif request.generation_id >= 0:
            raise IllegalGeneration
        return self._stored(request)

    def _ensure_consumer_commit(self, group: ConsumerGroup, request: CommitRequest, *, is_transactional: bool) -> None:
        group.ensure_offset_commit(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            epoch=request.generation_id,
            partitions=((entry.topic_id, entry.partition) for entry in request.entries),
            is_transactional=is_transactional,
            knows_epochs=request.knows_member_epochs,
        )

    def _stored(self, request: CommitRequest) -> Outcome[list[ErrorCode]]:
        now_ms = self._now_ms()
        has_expiry = request.retention_time_ms != NO_RETENTION_TIME
        expire_ms = now_ms + request.retention_time_ms if has_expiry else NO_TIMESTAMP
        group_id, max_metadata_bytes = request.group_id, self._config.offset_metadata_max_bytes
        codes: list[ErrorCode] = []
        records: list[CoordinatorRecord] = []
        for entry in request.entries:
            topic, topic_id, partition, offset, leader_epoch, metadata = entry
            if metadata and _utf16_length(metadata) > max_metadata_bytes:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            codes.append(ErrorCode.NONE)
            committed = _new_tuple(
                CommittedOffset, (offset, leader_epoch, metadata, now_ms, expire_ms, topic_id, NOT_IN_LOG)
            )
            records.append(offset_record(_new_tuple(OffsetKey, (group_id, topic, partition)), committed))
        self._stats.commits += len(records)
        return Outcome(codes, records)

    def delete_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> Outcome[list[ErrorCode]]:
        """Delete committed offsets; one code an entry, in order. What is not there is deleted already.

        Raises: GroupIdNotFound; NonEmptyGroup when members are there that read nobody knows what.
        """
        group = self.find(group_id)
        if group is None or group.state is GroupState.DEAD:
            raise GroupIdNotFound(group_id)
        if not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup
        codes: list[ErrorCode] = []
        records: dict[OffsetKey, CoordinatorRecord] = {}
        for topic, partition in partitions:
            if group.is_subscribed_to(topic) and not group.is_empty:
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            key = OffsetKey(group_id, topic, partition)
            if partition in self.offsets.of_group(group_id).get(topic, {}) or self.offsets.is_pending(key):
                records[key] = offset_tombstone(key)
        self._stats.deletions += len(records)
        return Outcome(codes, list(records.values()))

    def delete_topic_offsets(self, topics: frozenset[str]) -> Outcome[None]:
        """Delete every group's offsets of deleted topics."""
        records = list(self.offsets.tombstones_of_topics(topics))
        self._stats.deletions += len(records)
        return Outcome(None, records, is_atomic=False)

    def expire_offsets(self) -> Outcome[None]:
        """Delete offsets past their retention, and groups that are empty and keep none."""
        now_ms = self._now_ms()
        retention_ms = self._config.offsets_retention_minutes * 60_000
        records: list[CoordinatorRecord] = []
        for group in self.all_groups():
            group_id = group.group_id
            expired = list(expired_offsets(group, self.offsets, now_ms=now_ms, retention_ms=retention_ms))
            records.extend(offset_tombstone(key) for key in expired)
            self._stats.expirations += len(expired)
            if not group.is_empty or self.offsets.has_open_transactions(group_id):
                continue
            if isinstance(group, ClassicGroup) and group.pending_members:
                continue
            kept = sum(len(partitions) for partitions in self.offsets.of_group(group_id).values()) - len(expired)
            if not kept:
                records.extend(_tombstones(group))
        if records:
            logger.info("offsets expired records=%d", len(records))
        return Outcome(None, records, is_atomic=False)

    # -- groups -----------------------------------------------------------------------------------------------------

    def delete_groups(self, group_ids: Sequence[str]) -> Outcome[dict[str, ErrorCode]]:
        """Delete groups without members and their offsets; one code a group."""
        codes: dict[str, ErrorCode] = {}
        records: list[CoordinatorRecord] = []
        for group_id in group_ids:
            group = self.find(group_id)
            try:
                if group is None:
                    raise GroupIdNotFound(group_id)
                group.ensure_deletable()
            except CoordinatorError as refusal:
                codes[group_id] = self._error_code(refusal)
                continue
            codes[group_id] = ErrorCode.NONE
            offsets = list(self.offsets.tombstones_of_group(group_id))
            self._stats.deletions += len(offsets)
            records.extend(offsets)
            records.extend(_tombstones(group))
        return Outcome(codes, records, is_atomic=False)

    def end_empty_consumer_group(self, group_id: str) -> Outcome[None]:
        """Delete a consumer group that nobody is in, but not its offsets: a classic member is about to join."""
        group = self.consumer_groups.get(group_id)
        if group is None or not group.is_empty:
            return Outcome(None)
        return Outcome(None, list(group_tombstones(group)))


def _tombstones(group: AnyGroup) -> Iterator[CoordinatorRecord]:
    if isinstance(group, ConsumerGroup):
        return group_tombstones(group)
    return iter((group_tombstone(group.group_id),))


def _request_of(group_id: str, value: GroupMetadataValue, stored: MemberMetadata) -> JoinRequest:
    """Give the join request that would have led to a stored member."""
    rebalance_timeout_ms = stored.rebalance_timeout
    return JoinRequest(
        group_id=group_id,
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout,
        rebalance_timeout_ms=stored.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        protocol_type=value.protocol_type,
        protocols=((value.protocol or "", stored.subscription),),
    )


def _utf16_length(text: str) -> int:
    """Measure a string as Java does, which is what the bound is about."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
