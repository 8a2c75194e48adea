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

from broker.coordinator.group.consumer.assignor import AssigneeSpec, Subscriptions, TargetBuilder
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


class _Loads:
    """How much each member has, and who has least of a subscription."""

    def __init__(self, subscriptions: Subscriptions, member_count: int) -> None:
        self.of = [0] * member_count
        self._number_of = [0] * member_count
        # By subscription, (load, member); what has changed since is passed over.
        self._heaps: list[list[tuple[int, int]]] = []
        for number, group in enumerate(subscriptions.groups):
            self._heaps.append([(0, index) for index in group])
            for index in group:
                self._number_of[index] = number

    def add(self, index: int, step: int) -> None:
        """Count partitions that a member gets, or gives away."""
        load = self.of[index] = self.of[index] + step
        heapq.heappush(self._heaps[self._number_of[index]], (load, index))

    def least(self, numbers: Sequence[int]) -> tuple[int, int]:
        """Give the least loaded member of some subscriptions, with its load."""
        return min(self._least_of(number) for number in numbers)

    def _least_of(self, number: int) -> tuple[int, int]:
        heap = self._heaps[number]
        while self.of[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0]


class _Mixed:
    """An assignment of members with different subscriptions."""

    def __init__(self, members: Sequence[AssigneeSpec], partition_counts: Mapping[bytes, int]) -> None:
        self._counts = partition_counts
        self._members = members
        subscriptions = Subscriptions(members)
        self._subscribers = subscriptions.by_topic
        self._loads = _Loads(subscriptions, len(members))
        # Who has which numbers of each topic; popped from the end, so the highest numbers move first.
        self._owners: dict[bytes, dict[int, list[int]]] = {topic_id: {} for topic_id in self._subscribers}
        # The topics with most to give each subscriber come first: with them there is least choice.
        counts = {numbers: subscriptions.count(numbers) for numbers in set(self._subscribers.values())}

        def order(topic_id: bytes) -> tuple[float, int, bytes]:
            count = counts[self._subscribers[topic_id]]
            return -partition_counts[topic_id] / count, count, topic_id

        self._topics = sorted(self._subscribers, key=order)

    def assign(self) -> dict[str, Target]:
        """Keep, hand out, balance."""
        free: dict[Partition, None] = {
            (topic_id, number): None for topic_id in self._topics for number in range(self._counts[topic_id])
        }
        for index, member in enumerate(self._members):
            for topic_id, number in _take_previous(member, free):
                self._give(index, topic_id, number)
        for topic_id, number in free:
            self._give(self._loads.least(self._subscribers[topic_id])[1], topic_id, number)
        for _ in range(BALANCING_PASSES):
            if not sum(self._balance(topic_id) for topic_id in self._topics):
                break
        builder = TargetBuilder()
        for topic_id, owners in self._owners.items():
            for index, numbers in owners.items():
                for number in numbers:
                    builder.add(self._members[index].member_id, topic_id, number)
        return builder.build()

    def _give(self, index: int, topic_id: bytes, number: int) -> None:
        self._owners[topic_id].setdefault(index, []).append(number)
        self._loads.add(index, 1)

    def _balance(self, topic_id: bytes) -> int:
        """Move partitions of one topic from loaded subscribers to less loaded ones; tell how many."""
        owners, loads, subscribers = self._owners[topic_id], self._loads, self._subscribers[topic_id]
        most = [(-loads.of[index], index) for index, numbers in owners.items() if numbers]
        heapq.heapify(most)
        moved = 0
        while most:
            giver_load, giver = -most[0][0], most[0][1]
            if giver_load != loads.of[giver] or not owners[giver]:
                heapq.heappop(most)
                if owners[giver]:
                    heapq.heappush(most, (-loads.of[giver], giver))
                continue
            taker_load, taker = loads.least(subscribers)
            if giver_load - taker_load <= 1:
                break
            number = owners[giver].pop()
            loads.add(giver, -1)
            self._give(taker, topic_id, number)
            moved += 1
            heapq.heapreplace(most, (-loads.of[giver], giver))
        return moved
