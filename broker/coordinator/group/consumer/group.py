"""The stored state of one consumer group: epochs, members, target, and what follows from them.

Epochs: the group's rises with membership, subscriptions and topics; the assignment's is the group epoch the target was
made for; each member's is the assignment epoch it has converged to. No timers, no records: those belong to commands.
Written by replay alone, but for `refreshed_epoch`.
Source: ConsumerGroup, ModernGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from typing import ClassVar, NamedTuple

from broker.coordinator.errors import (
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from broker.coordinator.group.consumer.member import NO_TARGET, ConsumerMember, MemberState, Target
from broker.coordinator.group.consumer.reconcile import FREE
from broker.coordinator.group.subscription import CONSUMER_PROTOCOL_TYPE
from broker.metadata.image import ClusterImage, TopicImage

KNOWN_SUBSCRIPTIONS, KNOWN_NAMES = 64, 50_000
"""So many different ones of a group, with so many names in all, are remembered with their topics."""

FIRST_EPOCH = 1
"""The epoch of a group before anybody is in it; its first member makes it 2."""


class ConsumerGroupState(Enum):
    """A state with the name clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """The topics a regular expression matched, as of a version of the metadata and a time."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


NOTHING_RESOLVED = ResolvedRegex()


class ConsumerGroup:
    """One group."""

    protocol_type: ClassVar[str] = CONSUMER_PROTOCOL_TYPE
    group_type: ClassVar[str] = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        # Wall clock; 0 when it is not known.
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Target] = {}
        self.static_members: dict[str, str] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata_record = False
        # Counted from the members.
        self._names: Counter[str] = Counter()
        self.regexes: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_protocols: Counter[str] = Counter()
        self.classic_count = 0
        self._owners: dict[bytes, dict[int, int]] = {}
        # The topics of subscriptions, with what they were found from.
        self._topic_ids: dict[
            tuple[frozenset[str], str | None], tuple[Mapping[str, TopicImage], ResolvedRegex, frozenset[bytes]]
        ] = {}
        # In memory only: the group epoch since which topics are known to be unchanged; None when they may have changed.
        self.refreshed_epoch: int | None = None

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.state.value}, epoch={self.epoch}, "
            f"assignment={self.assignment_epoch}, members={len(self.members)})"
        )

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Give the state, which follows from the epochs."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Tell whether nobody is in the group."""
        return not self.members

    @property
    def may_have_new_metadata(self) -> bool:
        """Tell whether the topics have to be looked at anew; also after a write that failed."""
        return self.refreshed_epoch is None or self.epoch < self.refreshed_epoch

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """Give the epoch of a partition's present owner, or FREE."""
        owners = self._owners.get(topic_id)
        return FREE if owners is None else owners.get(partition, FREE)

    # -- members ----------------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        """Give a member. Raises: UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Give the holder of an instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Target:
        """Give the target of a member; one that takes a static place over has that of its predecessor."""
        holder = member.member_id
        if member.instance_id is not None:
            holder = self.static_members.get(member.instance_id, holder)
        return self.targets.get(holder, NO_TARGET)

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace it by its next value."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.members[member.member_id] = member
        if old is None or not old.asks_as(member):
            if old is not None:
                self._count(old, -1)
            self._count(member, 1)
        for part in (member.assigned, member.pending_revocation):
            for topic_id, epochs in part.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member.epoch))
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._count(old, -1)
        self._release(old)
        if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for part in (member.assigned, member.pending_revocation):
            for topic_id, epochs in part.items():
                owners = self._owners.get(topic_id)
                if owners is None:
                    continue
                for partition in epochs:
                    # Given to somebody else in a later epoch, it is not ours to free.
                    if owners.get(partition) == member.epoch:
                        del owners[partition]
                if not owners:
                    del self._owners[topic_id]

    def _count(self, member: ConsumerMember, step: int) -> None:
        _add(self._names, member.topic_names, step)
        if member.topic_regex:
            _add(self.regexes, (member.topic_regex,), step)
        if member.server_assignor is not None:
            _add(self.assignors, (member.server_assignor,), step)
        if member.classic is not None:
            self.classic_count += step
            _add(self.classic_protocols, (name for name, _ in member.classic.protocols), step)

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def subscribed_topics(self, without: Iterable[ConsumerMember] = (), plus: ConsumerMember | None = None) -> Set[str]:
        """Give every topic some member subscribes to, by name or regex, as it would be after a change of members."""
        names, regexes = self._names, self.regexes
        leaving = tuple(without)
        if leaving or plus is not None:
            names, regexes = Counter(names), Counter(regexes)
            for member in leaving:
                names.subtract(member.topic_names)
                regexes.subtract((member.topic_regex,) if member.topic_regex else ())
            if plus is not None:
                names.update(plus.topic_names)
                regexes.update((plus.topic_regex,) if plus.topic_regex else ())
        topics = {name for name, count in names.items() if count > 0}
        topics.update(*(self.resolved[r].topics for r, count in regexes.items() if count > 0 and r in self.resolved))
        return topics

    @property
    def named_topics(self) -> frozenset[str]:
        """Give the topics members subscribe to by name."""
        return frozenset(self._names)

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether some member reads the topic."""
        return topic in self._names or any(topic in resolved.topics for resolved in self.resolved.values())

    def topic_ids_of(self, member: ConsumerMember, image: ClusterImage) -> frozenset[bytes]:
        """Give the topics a member subscribes to, those that exist."""
        names = member.topic_names
        resolved = self.resolved.get(member.topic_regex, NOTHING_RESOLVED) if member.topic_regex else NOTHING_RESOLVED
        known = image.topics_by_name
        asked = names, member.topic_regex
        found = self._topic_ids.get(asked)
        # An image keeps what it does not change, so being the same says enough.
        if found is None or found[0] is not known or found[1] is not resolved:
            remembered = self._topic_ids
            if len(remembered) >= KNOWN_SUBSCRIPTIONS or sum(len(one) for one, _ in remembered) > KNOWN_NAMES:
                remembered.clear()
            ids = frozenset(known[name].topic_id for name in names | resolved.topics if name in known)
            found = remembered[asked] = known, resolved, ids
        return found[2]

    def preferred_assignor(self, old: ConsumerMember | None, new: ConsumerMember, default: str) -> str:
        """Give the assignor most members ask for, as it would be after a change of one member."""
        counts = Counter(self.assignors)
        if old is not None and old.server_assignor is not None:
            counts[old.server_assignor] -= 1
        if new.server_assignor is not None:
            counts[new.server_assignor] += 1
        name, count = max(counts.items(), key=lambda entry: entry[1], default=(default, 0))
        return name if count > 0 else default

    # -- classic members --------------------------------------------------------------------------------------------

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Tell whether a member of the classic protocol could join those that are in the group."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        return any(self.classic_protocols[name] == self.classic_count for name in names)

    def would_be_all_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Tell whether only members of the classic protocol would be left."""
        gone = list(leaving)
        classic = self.classic_count - sum(member.classic is not None for member in gone)
        return classic == len(self.members) - len(gone)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Tell whether something of a member's target is still somebody else's."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {}) and self.partition_epoch(topic_id, partition) != FREE
            for topic_id, partitions in self.targets.get(member.member_id, NO_TARGET).items()
            for partition in partitions
        )

    # -- what others ask before they act ----------------------------------------------------------------------------

    def ensure_offset_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        epoch: int,
        partitions: Iterable[tuple[bytes, int]],
        is_transactional: bool = False,
        knows_epochs: bool = True,
    ) -> None:
        """Check who commits. A member may be behind, as long as it commits for what it had in that epoch already.

        Raises: UnknownMemberId, StaleMemberEpoch, IllegalGeneration (classic members), UnsupportedVersion.
        """
        if epoch < 0 and self.is_empty:
            return
        if is_transactional and epoch == -1 and not member_id and group_instance_id is None:
            return
        member = self.member(member_id)
        refusal = IllegalGeneration if member.classic is not None else StaleMemberEpoch
        if not is_transactional and member.classic is None and not knows_epochs:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if epoch > member.epoch:
            raise refusal(f"Received member epoch {epoch} is newer than current member epoch {member.epoch}.")
        if epoch == member.epoch:
            return
        for topic_id, partition in partitions:
            since = member.owned_epoch(topic_id, partition)
            if since is None or epoch < since:
                raise refusal(f"Received member epoch {epoch} is older than that of partition {partition}.")

    def ensure_offset_fetch(self, *, member_id: str | None, epoch: int) -> None:
        """Check who fetches offsets. Raises: UnknownMemberId, StaleMemberEpoch, IllegalGeneration (classic members)."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            refusal = IllegalGeneration if member.classic is not None else StaleMemberEpoch
            raise refusal(f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}.")

    def ensure_deletable(self) -> None:
        """Check that the group can be deleted. Raises: NonEmptyGroup."""
        if not self.is_empty:
            raise NonEmptyGroup


def _add(counter: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        counter[name] += step
        if not counter[name]:
            del counter[name]
