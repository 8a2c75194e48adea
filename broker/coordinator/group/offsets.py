"""Committed offsets of a shard's groups: commit, fetch, delete, and what a transaction has yet to decide.

Plain commits are kept by group, topic and partition. Commits inside a transaction wait by producer id until its marker
arrives; then the newer of the pending and the plain one stays, by position in the log. State changes in `replay` only.
Source: OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.coordinator.group.records import CommittedOffset, OffsetKey, offset_tombstone
from broker.coordinator.shard import CoordinatorRecord
from protocol.uuids import ZERO_UUID

NO_OFFSET = -1

PartitionOffsets = dict[int, CommittedOffset]
TopicOffsets = dict[str, PartitionOffsets]

_EMPTY_TOPICS: TopicOffsets = {}


class FetchedOffset(NamedTuple):
    """What a group has committed for a partition; `offset` is -1 when nothing, `is_unstable` while that may change."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    is_unstable: bool = False


class FetchedTopic(NamedTuple):
    """A topic's part of a fetch."""

    topic: str
    topic_id: bytes
    partitions: list[FetchedOffset]


class FetchTopic(NamedTuple):
    """A topic asked for, with its id where the caller knows it."""

    topic: str
    topic_id: bytes
    partitions: Sequence[int]


class GroupOffsets:
    """The offsets of one shard."""

    def __init__(self) -> None:
        # All three are written by replay alone.
        self._by_group: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self._open_transactions: dict[str, set[int]] = {}

    # -- reading ----------------------------------------------------------------------------------------------------

    def has_offsets(self, group_id: str) -> bool:
        """Tell whether the group has committed anything, decided or not."""
        return group_id in self._by_group or group_id in self._open_transactions

    def has_open_transactions(self, group_id: str) -> bool:
        """Tell whether some transaction still holds commits of the group."""
        return group_id in self._open_transactions

    def group_ids(self) -> list[str]:
        """Give every group with committed offsets."""
        return list(self._by_group)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Give a group's committed offsets by topic and partition."""
        return self._by_group.get(group_id, _EMPTY_TOPICS)

    def is_pending(self, key: OffsetKey) -> bool:
        """Tell whether an open transaction holds a commit for the partition."""
        producer_ids = self._open_transactions.get(key.group_id, ())
        return any(key in self._pending.get(producer_id, ()) for producer_id in producer_ids)

    def fetch(self, group_id: str, topics: Iterable[FetchTopic], *, require_stable: bool) -> list[FetchedTopic]:
        """Give what was committed for named partitions, in the order asked."""
        committed = self._by_group.get(group_id, _EMPTY_TOPICS)
        return [
            FetchedTopic(
                asked.topic,
                asked.topic_id,
                [
                    self._fetched(
                        OffsetKey(group_id, asked.topic, partition),
                        _of_same_topic(committed.get(asked.topic, {}).get(partition), asked.topic_id),
                        require_stable=require_stable,
                    )
                    for partition in asked.partitions
                ],
            )
            for asked in topics
        ]

    def fetch_all(self, group_id: str, *, require_stable: bool) -> list[FetchedTopic]:
        """Give everything a group has committed, by topic name and partition."""
        return [
            FetchedTopic(
                topic,
                _topic_id_of(partitions),
                [
                    self._fetched(
                        OffsetKey(group_id, topic, partition), partitions[partition], require_stable=require_stable
                    )
                    for partition in sorted(partitions)
                ],
            )
            for topic, partitions in sorted(self._by_group.get(group_id, _EMPTY_TOPICS).items())
        ]

    def _fetched(self, key: OffsetKey, committed: CommittedOffset | None, *, require_stable: bool) -> FetchedOffset:
        if require_stable and self._open_transactions and self.is_pending(key):
            return FetchedOffset(key.partition, is_unstable=True)
        if committed is None:
            return FetchedOffset(key.partition)
        return FetchedOffset(key.partition, committed.offset, committed.leader_epoch, committed.metadata)

    # -- deleting ---------------------------------------------------------------------------------------------------

    def tombstones_of_group(self, group_id: str) -> Iterator[CoordinatorRecord]:
        """Give what deletes everything a group has committed, pending commits included."""
        for key in self._keys_of_group(group_id):
            yield offset_tombstone(key)

    def tombstones_of_topics(self, topics: frozenset[str]) -> Iterator[CoordinatorRecord]:
        """Give what deletes every group's offsets of these topics."""
        for group_id, committed in self._by_group.items():
            if group_id not in self._open_transactions:
                for topic in topics & committed.keys():
                    for partition in committed[topic]:
                        yield offset_tombstone(OffsetKey(group_id, topic, partition))
        for group_id in self._open_transactions:
            for key in self._keys_of_group(group_id):
                if key.topic in topics:
                    yield offset_tombstone(key)

    def _keys_of_group(self, group_id: str) -> list[OffsetKey]:
        keys = {
            OffsetKey(group_id, topic, partition): None
            for topic, partitions in self._by_group.get(group_id, _EMPTY_TOPICS).items()
            for partition in partitions
        }
        for producer_id in self._open_transactions.get(group_id, ()):
            keys.update((key, None) for key in self._pending[producer_id] if key.group_id == group_id)
        return list(keys)

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, key: OffsetKey, committed: CommittedOffset | None, producer_id: int) -> None:
        """Apply a stored commit or its tombstone."""
        if committed is None:
            self._remove(key)
            for open_producer_id in self._open_transactions.get(key.group_id, ()):
                self._pending[open_producer_id].pop(key, None)
        elif producer_id >= 0:
            self._pending.setdefault(producer_id, {})[key] = committed
            self._open_transactions.setdefault(key.group_id, set()).add(producer_id)
        else:
            group_id, topic, partition = key
            try:
                self._by_group[group_id][topic][partition] = committed
            except KeyError:
                self._put(key, committed)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply a transaction's marker to its pending commits."""
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for group_id in [g for g, producer_ids in self._open_transactions.items() if producer_id in producer_ids]:
            self._open_transactions[group_id].discard(producer_id)
            if not self._open_transactions[group_id]:
                del self._open_transactions[group_id]
        if not is_commit:
            return
        for key, committed in pending.items():
            existing = self._by_group.get(key.group_id, _EMPTY_TOPICS).get(key.topic, {}).get(key.partition)
            if existing is None or committed.record_offset > existing.record_offset:
                self._put(key, committed)

    def _put(self, key: OffsetKey, committed: CommittedOffset) -> None:
        self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = committed

    def _remove(self, key: OffsetKey) -> None:
        topics = self._by_group.get(key.group_id)
        if topics is None or key.topic not in topics:
            return
        partitions = topics[key.topic]
        partitions.pop(key.partition, None)
        if not partitions:
            del topics[key.topic]
            if not topics:
                del self._by_group[key.group_id]


def _of_same_topic(committed: CommittedOffset | None, topic_id: bytes) -> CommittedOffset | None:
    """Hide a commit that was made for an earlier topic of the same name."""
    if committed is None or ZERO_UUID in (committed.topic_id, topic_id) or committed.topic_id == topic_id:
        return committed
    return None


def _topic_id_of(partitions: PartitionOffsets) -> bytes:
    return next((c.topic_id for c in partitions.values() if c.topic_id != ZERO_UUID), ZERO_UUID)
