"""What goes in and out of the topics hosted here, as Kafka counts it, and what was refused.

The counters of a topic live as long as the topic, whatever becomes of its partitions: none ever falls. Those of a
deleted topic stay in the sum of all.
"""

from __future__ import annotations

from broker.metrics.instruments import TopicStats
from broker.partition.errors import (
    FencedLeaderEpoch,
    InconsistentTopicIdRequested,
    NotLeader,
    PartitionOffline,
    UnknownLeaderEpoch,
    UnknownPartition,
    UnknownTopicId,
)
from storage.errors import (
    CorruptRecord,
    InvalidMagic,
    InvalidOffsets,
    LogClosed,
    MissingKeys,
    OffsetOutOfRange,
    RecordListTooLarge,
    RecordTooLarge,
    StorageFailure,
    WrongChecksum,
)

_UNREACHABLE = (UnknownPartition, UnknownTopicId, NotLeader, StorageFailure, PartitionOffline, LogClosed)
KNOWN_PRODUCE_FAILURES = (*_UNREACHABLE, RecordTooLarge, RecordListTooLarge, CorruptRecord)
"""Kafka does not count these as failed: the counter tells of what nobody would expect. Source: ReplicaManager."""
KNOWN_FETCH_FAILURES = (
    *_UNREACHABLE,
    *(UnknownLeaderEpoch, FencedLeaderEpoch, InconsistentTopicIdRequested, OffsetOutOfRange),
)


class InvalidRecords:
    """Records that were refused for what is wrong with them, by kind."""

    def __init__(self) -> None:
        self.wrong_magic = 0
        self.wrong_checksum = 0
        self.wrong_offsets = 0
        self.missing_key = 0

    def count(self, failure: Exception) -> None:
        """Count a refused batch, or each of the records that are named."""
        if isinstance(failure, WrongChecksum):
            self.wrong_checksum += 1
        elif isinstance(failure, InvalidMagic):
            self.wrong_magic += 1
        elif isinstance(failure, InvalidOffsets):
            self.wrong_offsets += 1
        elif isinstance(failure, MissingKeys):
            self.missing_key += len(failure.record_errors)


class Traffic:
    """The counters of all topics."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicStats] = {}
        self.invalid_records = InvalidRecords()
        self._elsewhere = TopicStats()  # of topics that are gone or were never here

    def of(self, topic: str) -> TopicStats:
        """Give the counters of a topic that is hosted."""
        return self.topics.setdefault(topic, TopicStats())

    def forget(self, topic: str) -> None:
        """Keep what a deleted topic adds to the sum; under its name another one begins anew."""
        stats = self.topics.pop(topic, None)
        if stats is not None:
            self._elsewhere.add(stats)

    def total(self) -> TopicStats:
        """Return the sum of all that were ever here."""
        total = TopicStats()
        total.add(self._elsewhere)
        for stats in self.topics.values():
            total.add(stats)
        return total

    def refused_batch(self, topic: str | None, failure: Exception) -> None:
        """Count a batch of a producer that was not appended."""
        stats = self._known(topic)
        stats.produce_requests += 1
        if isinstance(failure, RecordTooLarge):
            stats.bytes_rejected += failure.size_bytes
        if not isinstance(failure, KNOWN_PRODUCE_FAILURES):
            stats.failed_produce_requests += 1
        self.invalid_records.count(failure)

    def refused_fetch(self, topic: str | None, failure: Exception) -> None:
        """Count a partition that could not be read."""
        stats = self._known(topic)
        stats.fetch_requests += 1
        if not isinstance(failure, KNOWN_FETCH_FAILURES):
            stats.failed_fetch_requests += 1

    def _known(self, topic: str | None) -> TopicStats:
        return self.topics.get(topic, self._elsewhere) if topic is not None else self._elsewhere
