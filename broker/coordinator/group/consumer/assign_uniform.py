"""The uniform assignor: counts that differ by one at most, and as few partitions moved as that allows.

- All members subscribe to the same topics: each gets its share of all partitions. Who had more than the smaller share
  keeps it as long as there are larger shares to give, so nothing moves that need not.
- Subscriptions differ: whatever is still allowed is kept, what is free goes to the least loaded subscriber, the topics
  with most to give a subscriber first; then partitions move from a loaded subscriber to a less loaded one as long as
  that brings their counts closer.

Source: UniformAssignor; there the larger shares go to the first members in no particular order, which may move more.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from broker.coordinator.group.consumer.assignor import AssigneeSpec, TargetBuilder
from broker.coordinator.group.consumer.member import Target

BALANCING_PASSES = 16
"""Passes over all topics; each only brings counts closer, and a few are enough for any group seen in practice."""

Partition = tuple[bytes, int]


def assign_uniform(members: Sequence[AssigneeSpec], partition_counts: Mapping[bytes, int]) -> dict[str, Target]:
    """Assign evenly."""
    if not members:
        return {}
    ordered = sorted(members, key=lambda member: member.member_id)
    topic_ids = ordered[0].topic_ids
    if all(member.topic_ids == topic_ids for member in ordered):
        return _assign_alike(ordered, topic_ids, partition_counts)
    return _Mixed(ordered, partition_counts).assign()


def _assign_alike(
    members: Sequence[AssigneeSpec], topic_ids: frozenset[bytes], partition_counts: Mapping[bytes, int]
) -> dict[str, Target]:
    free: dict[Partition, None] = {
        (topic_id, number): None for topic_id in sorted(topic_ids) for number in range(partition_counts[topic_id])
    }
    quota, larger = divmod(len(free), len(members))
    kept = {member.member_id: _take_previous(member, free) for member in members}
    builder = TargetBuilder()
    wanting: list[tuple[str, int]] = []
    # Those that had most come first: they keep the larger shares.
    for member in sorted(members, key=lambda m: -len(kept[m.member_id])):
        had = kept[member.member_id]
        share = quota + (larger > 0)
        larger -= larger > 0
        for topic_id, number in had[:share]:
            builder.add(member.member_id, topic_id, number)
        free.update(dict.fromkeys(had[share:]))
        if len(had) < share:
            wanting.append((member.member_id, share - len(had)))
    rest = iter(sorted(free))
    for member_id, count in wanting:
        for _ in range(count):
            topic_id, number = next(rest)
            builder.add(member_id, topic_id, number)
    return builder.build()


def _take_previous(member: AssigneeSpec, free: dict[Partition, None]) -> list[Partition]:
    """Take what a member had and may keep out of what is free."""
    taken: list[Partition] = []
    for topic_id, numbers in sorted(member.previous.items()):
        if topic_id not in member.topic_ids:
            continue
        for number in sorted(numbers):
            if (topic_id, number) in free:
                del free[topic_id, number]
                taken.append((topic_id, number))
    return taken


class _Mixed:
    """An assignment of members with different subscriptions."""

    def __init__(self, members: Sequence[AssigneeSpec], partition_counts: Mapping[bytes, int]) -> None:
        self._counts = partition_counts
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._members = members
        self._loads = [0] * len(members)
        # The numbers of each member by topic; popped from the end, so the highest numbers move first.
        self._owned: list[dict[bytes, list[int]]] = [{} for _ in members]
        # The topics with most to give each subscriber come first: with them there is least choice.
        self._topics = sorted(
            self._subscribers,
            key=lambda t: (-partition_counts[t] / len(self._subscribers[t]), len(self._subscribers[t]), t),
        )

    def assign(self) -> dict[str, Target]:
        """Keep, hand out, balance."""
        free: dict[Partition, None] = {
            (topic_id, number): None for topic_id in self._topics for number in range(self._counts[topic_id])
        }
        for index, member in enumerate(self._members):
            for topic_id, number in _take_previous(member, free):
                self._give(index, topic_id, number)
        heaps: dict[bytes, list[tuple[int, int]]] = {}
        for topic_id, number in free:
            if topic_id not in heaps:
                heaps = {topic_id: self._heap(topic_id)}
            _, index = heaps[topic_id][0]
            self._give(index, topic_id, number)
            heapq.heapreplace(heaps[topic_id], (self._loads[index], index))
        for _ in range(BALANCING_PASSES):
            if not sum(self._balance(topic_id) for topic_id in self._topics):
                break
        builder = TargetBuilder()
        for member, topics in zip(self._members, self._owned, strict=True):
            for topic_id, numbers in topics.items():
                for number in numbers:
                    builder.add(member.member_id, topic_id, number)
        return builder.build()

    def _give(self, index: int, topic_id: bytes, number: int) -> None:
        self._owned[index].setdefault(topic_id, []).append(number)
        self._loads[index] += 1

    def _heap(self, topic_id: bytes) -> list[tuple[int, int]]:
        heap = [(self._loads[index], index) for index in self._subscribers[topic_id]]
        heapq.heapify(heap)
        return heap

    def _balance(self, topic_id: bytes) -> int:
        """Move partitions of one topic from loaded subscribers to less loaded ones; tell how many."""
        least = self._heap(topic_id)
        most = [(-load, index) for load, index in least if self._owned[index].get(topic_id)]
        heapq.heapify(most)
        moved = 0
        while most:
            giver_load, giver = -most[0][0], most[0][1]
            taker_load, taker = least[0]
            if giver_load != self._loads[giver] or not self._owned[giver].get(topic_id):
                heapq.heappop(most)
                if self._owned[giver].get(topic_id):
                    heapq.heappush(most, (-self._loads[giver], giver))
                continue
            if taker_load != self._loads[taker]:
                heapq.heapreplace(least, (self._loads[taker], taker))
                continue
            if giver_load - taker_load <= 1:
                break
            number = self._owned[giver][topic_id].pop()
            self._loads[giver] -= 1
            self._give(taker, topic_id, number)
            moved += 1
            heapq.heapreplace(least, (self._loads[taker], taker))
            heapq.heapreplace(most, (-self._loads[giver], giver))
        return moved
