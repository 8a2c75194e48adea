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
    has_target: bool = True
    """Whether `previous` is stored, be it empty."""


Assignor = Callable[[Sequence[AssigneeSpec], Mapping[bytes, int]], dict[str, Target]]
"""Members and partition counts to targets; a member without partitions may be left out."""


class Subscriptions:
    """Who subscribes to what. Most members of a group ask for the same topics, so they are looked at together."""

    def __init__(self, members: Sequence[AssigneeSpec]) -> None:
        by_topics: dict[frozenset[bytes], list[int]] = {}
        for index, member in enumerate(members):
            by_topics.setdefault(member.topic_ids, []).append(index)
        # The members of each subscription, by their places, ascending.
        self.groups: list[list[int]] = list(by_topics.values())
        # The subscriptions that have a topic, by their numbers.
        self.by_topic: dict[bytes, tuple[int, ...]] = {}
        for number, topic_ids in enumerate(by_topics):
            for topic_id in topic_ids:
                self.by_topic[topic_id] = (*self.by_topic.get(topic_id, ()), number)

    def members(self, numbers: Sequence[int]) -> list[int]:
        """Give the members of some subscriptions, ascending."""
        if len(numbers) == 1:
            return self.groups[numbers[0]]
        return sorted(index for number in numbers for index in self.groups[number])

    def count(self, numbers: Sequence[int]) -> int:
        """Count the members of some subscriptions."""
        return sum(len(self.groups[number]) for number in numbers)


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
