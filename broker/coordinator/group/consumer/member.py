"""One member of a consumer group as it is stored: what it asked for, what it has, and what it still has to give back.

Immutable: a command makes the next value, its records are written, and replay makes the same value of them.

    STABLE --newer target, something to give back--> UNREVOKED_PARTITIONS --given back--> one of the others
    UNRELEASED_PARTITIONS: in the newest epoch, but partitions of its target are still somebody else's

Source: ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from broker.coordinator.group.commands import Protocols

LEAVE_EPOCH = -1
"""The epoch a member leaves with."""
STATIC_LEAVE_EPOCH = -2
"""The epoch a static member leaves with when it means to come back within its session."""

Assigned = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which its member got it: that fences commits of later owners' past."""

Target = Mapping[bytes, frozenset[int]]
"""Partitions by topic id, as an assignor gives them."""

NOTHING_ASSIGNED: Assigned = {}
NO_TARGET: Target = {}


class MemberState(IntEnum):
    """Where a member is on its way to its target, as stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class ClassicFacts(NamedTuple):
    """What is known of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerMember(NamedTuple):
    """A member; equal fields, equal members."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    classic: ClassicFacts | None = None
    epoch: int = 0
    previous_epoch: int = -1
    """The epoch before: a member that has not seen the answer with the newer one still sends it."""
    state: MemberState = MemberState.STABLE
    assigned: Assigned = NOTHING_ASSIGNED
    pending_revocation: Assigned = NOTHING_ASSIGNED

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Tell whether the member has all of the target of that epoch and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def asks_as(self, other: ConsumerMember) -> bool:
        """Tell whether another value of the member asks for the same as this one."""
        return (
            self.topic_names is other.topic_names
            and self.topic_regex == other.topic_regex
            and self.server_assignor == other.server_assignor
            and self.classic is other.classic
        )

    def moved_to(
        self, epoch: int, state: MemberState, assigned: Assigned, pending_revocation: Assigned
    ) -> ConsumerMember:
        """Return the member after a step of its reconciliation."""
        return self._replace(
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

    def left_for_a_while(self) -> ConsumerMember:
        """Return the static member as it waits for its successor; who comes back may commit for what it had."""
        return self._replace(
            epoch=STATIC_LEAVE_EPOCH,
            assigned=with_epoch(partitions_of(self.assigned), 0),
            pending_revocation=NOTHING_ASSIGNED,
        )

    def owned_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Give the epoch in which the member got a partition that it has not given back; None for others."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def owns_all(self, owned: Target | None) -> bool:
        """Tell whether what a member says it owns is known and assigned to it."""
        if owned is None:
            return False
        return all(
            partitions <= self.assigned[topic_id].keys() if topic_id in self.assigned else False
            for topic_id, partitions in owned.items()
        )


def partitions_of(assigned: Assigned) -> Target:
    """Leave the epochs away."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}


def with_epoch(target: Target, epoch: int) -> Assigned:
    """Say of each partition that its member got it in `epoch`."""
    return {topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in target.items()}


def merged(parts: Iterable[Assigned]) -> Target:
    """Join several assignments."""
    joined: dict[bytes, frozenset[int]] = {}
    for part in parts:
        for topic_id, epochs in part.items():
            joined[topic_id] = joined.get(topic_id, frozenset()).union(epochs)
    return joined
