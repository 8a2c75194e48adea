"""What the broker's assignors have in common: their input, and who is who.

An assignor is a pure function of the members (subscriptions that exist, previous targets) and the sizes of the topics.
Every partition of a subscribed topic goes to exactly one of its subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from broker.coordinator.group.consumer.member import Target


class AssigneeSpec(NamedTuple):
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    previous: Target


Assignor = Callable[[Sequence[AssigneeSpec], Mapping[bytes, int]], dict[str, Target]]
"""Members and partition counts to targets; a member without partitions may be left out."""


class TargetBuilder:
    """Collects partitions for members."""

    def __init__(self) -> None:
        self._targets: dict[str, dict[bytes, list[int]]] = {}

    def add(self, member_id: str, topic_id: bytes, partition: int) -> None:
        """Give a partition to a member."""
        self._targets.setdefault(member_id, {}).setdefault(topic_id, []).append(partition)

    def build(self) -> dict[str, Target]:
        """Give what was collected."""
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in self._targets.items()
        }
