"""The state of one classic group: members, generation, protocol, and where it is between two rebalances.

States: Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...; Dead from anywhere. A
group without protocol type and members only keeps offsets ("simple" group). No timers, no records: those belong to the
commands. Invariant: `awaiting_join_count` is the number of members with a parked JoinGroup.
Source: org.apache.kafka.coordinator.group.classic.ClassicGroup.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import ClassVar, NamedTuple

from broker.coordinator.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from broker.coordinator.group.commands import (
    JoinedMember,
    JoinReply,
    JoinRequest,
    JoinResult,
    Protocols,
    SyncReply,
    SyncResult,
)
from broker.coordinator.group.member import ClassicMember
from broker.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE, parse_subscribed_topics
from broker.coordinator.timers import Timer
from protocol.errors import ErrorCode


class GroupState(Enum):
    """A state with the name clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class InitialDelay(NamedTuple):
    """The wait of a first rebalance: the slice that runs, and how much may follow while members keep coming."""

    slice_ms: int
    remaining_ms: int


class ClassicGroup:
    """One group; every mutation goes through a method that keeps the counts in step."""

    group_type: ClassVar[str] = "classic"

    __slots__ = (
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "has_new_member",
        "initial_delay",
        "join_timer",
        "leader_id",
        "members",
        "pending_members",
        "pending_sync_members",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "supported_protocols",
        "sync_timer",
    )

    def __init__(self, group_id: str, *, now_ms: int, join_timer: Timer, sync_timer: Timer) -> None:
        self.group_id = group_id
        self.join_timer = join_timer
        self.sync_timer = sync_timer
        self.state = GroupState.EMPTY
        # Wall clock; None for records older than the field. Offset expiry counts from here once the group is empty.
        self.state_timestamp_ms: int | None = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        # In the order they joined, which makes the first joined one the leader.
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        # Ids handed out with MEMBER_ID_REQUIRED and not yet used, with the timer that takes them back.
        self.pending_members: dict[str, Timer] = {}
        self.pending_sync_members: set[str] = set()
        self.supported_protocols: Counter[str] = Counter()
        self.awaiting_join_count = 0
        # Set by joins during the initial rebalance delay, cleared when the delay is extended for them.
        self.has_new_member = False
        # Set while the join phase of a group that was empty is held open for others.
        self.initial_delay: InitialDelay | None = None
        # None: not known, either no consumer group or a subscription that could not be parsed.
        self.subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id!r}, {self.state.value}, generation={self.generation_id}, "
            f"members={len(self.members)}, awaiting_join={self.awaiting_join_count})"
        )

    # -- state ------------------------------------------------------------------------------------------------------

    def transition_to(self, state: GroupState, *, now_ms: int) -> None:
        """Move to another state, legal ones only."""
        assert self.state in _PREVIOUS_STATES[state], f"{self!r} cannot become {state.value}"
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Tell whether a rebalance can be started from the current state."""
        return self.state in _PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def is_empty(self) -> bool:
        """Tell whether the group has settled without members."""
        return self.state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Tell whether the group only keeps offsets."""
        return self.protocol_type is None and self.is_empty and not self.pending_members

    @property
    def uses_consumer_protocol(self) -> bool:
        """Tell whether the members' metadata are consumer subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_members_joined(self) -> bool:
        """Tell whether the join phase waits for nobody."""
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """Give the largest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def init_next_generation(self, *, now_ms: int) -> None:
        """Begin the next generation: choose its protocol, or settle as empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.pending_sync_members.clear()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms=now_ms)

    # -- membership -------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """Take a member in, parked on `reply` if given."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.park_join(member, reply)
        self.drop_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending one; a parked SyncGroup is told that the member is unknown."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.awaiting_join is not None:
                self.complete_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            self.complete_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            member.session.cancel()
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.drop_pending(member_id)
        self.pending_sync_members.discard(member_id)

    def add_pending(self, member_id: str, timer: Timer) -> None:
        """Reserve an id that was handed out."""
        assert member_id not in self.members
        self.pending_members[member_id] = timer

    def drop_pending(self, member_id: str) -> None:
        """Take a reservation back, if there is one."""
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def replace_static_member(self, old_id: str, replacement: ClassicMember) -> None:
        """Let a new member take over a static instance: place, assignment and leadership; its parked requests end."""
        old = self.members.pop(old_id)
        instance_id = old.group_instance_id
        assert instance_id is not None and instance_id == replacement.group_instance_id
        self.complete_join(old, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self.complete_sync(old, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        old.session.cancel()
        self._count_protocols(old, -1)
        self._count_protocols(replacement, 1)
        self.members[replacement.member_id] = replacement
        self.static_members[instance_id] = replacement.member_id
        if old_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_id)
            self.pending_sync_members.add(replacement.member_id)
        if self.leader_id == old_id:
            self.leader_id = replacement.member_id

    def update_member(self, member: ClassicMember, request: JoinRequest, reply: JoinReply) -> None:
        """Take over what a rejoining member says and park it."""
        self._count_protocols(member, -1)
        member.protocols = request.protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self.park_join(member, reply)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect a joined member; False when nobody has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def ensure_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Give a member by id. Raises: UnknownMemberId; FencedInstanceId when another one holds the instance."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise UnknownMemberId
            if holder != member_id:
                raise FencedInstanceId
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member

    def members_for_leader(self) -> tuple[JoinedMember, ...]:
        """Give every member with its metadata for the chosen protocol."""
        name = self.protocol_name
        return tuple(JoinedMember(m.member_id, m.group_instance_id, m.metadata(name)) for m in self.members.values())

    # -- protocols --------------------------------------------------------------------------------------------------

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Tell whether a member with these protocols could be part of the group."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        is_common = any(self.supported_protocols[name] == count for name, _ in protocols)
        return self.protocol_type == protocol_type and is_common

    def select_protocol(self) -> str:
        """Choose by vote among the protocols every member supports."""
        count = len(self.members)
        candidates = {name for name, supporters in self.supported_protocols.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Collect the topics the members subscribe to; None when that cannot be known."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = parse_subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return None
            topics.update(subscribed)
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether a live member reads the topic; a consumer group of unknown subscriptions might."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _count_protocols(self, member: ClassicMember, step: int) -> None:
        for name, _ in member.protocols:
            self.supported_protocols[name] += step
            if not self.supported_protocols[name]:
                del self.supported_protocols[name]

    # -- parked requests --------------------------------------------------------------------------------------------

    def park_join(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """Park a JoinGroup; an older one of the same member, on a connection it has given up, is sent to try again."""
        self.complete_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.awaiting_join = reply
        if reply is not None:
            self.awaiting_join_count += 1

    def park_sync(self, member: ClassicMember, reply: SyncReply) -> None:
        """Park a SyncGroup, in the same way."""
        self.complete_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = reply

    def complete_join(self, member: ClassicMember, result: JoinResult) -> None:
        """Answer a parked JoinGroup, if there is one."""
        reply = member.awaiting_join
        if reply is not None:
            member.awaiting_join = None
            self.awaiting_join_count -= 1
            reply(result)

    def complete_sync(self, member: ClassicMember, result: SyncResult) -> None:
        """Answer a parked SyncGroup, if there is one."""
        reply = member.awaiting_sync
        if reply is not None:
            member.awaiting_sync = None
            reply(result)

    # -- what others ask before they act ----------------------------------------------------------------------------

    def ensure_offset_commit(
        self, *, member_id: str, group_instance_id: str | None, generation_id: int, is_transactional: bool
    ) -> ClassicMember | None:
        """Check who commits; gives the committing member, None for a commit from outside the group.

        Raises: UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress, CoordinatorNotAvailable.
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable
        if generation_id < 0 and self.is_empty:
            return None
        member = None
        if generation_id >= 0 or member_id or group_instance_id is not None:
            member = self.ensure_member(member_id, group_instance_id)
            if generation_id != self.generation_id:
                raise IllegalGeneration
        elif not is_transactional:
            raise UnknownMemberId
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress
        return member

    def ensure_deletable(self) -> None:
        """Check that the group can be deleted. Raises: GroupIdNotFound, NonEmptyGroup."""
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound(self.group_id)
        if not self.is_empty:
            raise NonEmptyGroup
