"""Offsets by time and by epoch: ListOffsets (key 2, served 1 to 11), OffsetForLeaderEpoch (key 23, served 2 to 4).

- ListOffsets: v2 isolation level; v4 leader epochs; v6 flexible; v7 -3 largest timestamp; v8 -4 earliest local; v9 -5
  latest tiered; v10 timeout; v11 -6 earliest pending upload. Without a tier -4 is the log start, -5 and -6 are unknown.
- A timestamp or -3 answers nothing that lies at or beyond the fetchable bound; nothing found is error 0 and -1.
- On scheduled topics LATEST is the first record whose time has not come. What is asked by time is found beyond it, too.
  A long log may have to be searched for it; what is not known in time is REQUEST_TIMED_OUT, for that partition alone.
- Only the largest timestamp of a segment is known in memory. What that does not decide is searched for in the files, in
  the I/O pool of the log's directory, one partition after the other.

Source: KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp, KIP-320, KIP-734, KIP-1005, KIP-1023.
"""

from __future__ import annotations

import asyncio
import os.path
from collections import Counter

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from storage.errors import LogClosed, StorageError, StorageFailure
from storage.log.time_search import TimeSearch

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

SPECIAL_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The request version that introduced each special timestamp."""

DEFAULT_TIMEOUT_MS = 30_000
"""What Kafka has for searches beside the log where a request names none; before v10 none does."""

CONSUMER_REPLICA_ID = -1
"""Everybody else, replicas and who looks for faults, may see up to the log end."""

MAX_ATTEMPTS = 4
"""So often a search is begun whose log was cleaned, cut or moved under it; a swap of the cleaner overtakes it twice."""

Found = tuple[int, int, int]
"""timestamp, offset, leader epoch"""
NOTHING: Found = (-1, -1, -1)


class OffsetsApi:
    """Answers where in a log something is."""

    def __init__(self, partitions: PartitionManager, pools: Pools) -> None:
        self._partitions = partitions
        self._pools = pools

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.LIST_OFFSETS, 1, 11, self.list_offsets),
            Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, self.offset_for_leader_epoch),
        )

    async def list_offsets(self, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        """Find offsets by timestamp."""
        named = Counter((topic.name, entry.partition_index) for topic in request.topics for entry in topic.partitions)
        timeout_ms = request.timeout_ms if request.timeout_ms > 0 else DEFAULT_TIMEOUT_MS
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        topics = []
        for topic in request.topics:
            answers = []
            for entry in topic.partitions:
                answer = ListOffsetsPartitionResponse(
                    partition_index=entry.partition_index, timestamp=-1, offset=-1, leader_epoch=-1
                )
                if named[topic.name, entry.partition_index] > 1:
                    answer.error_code = ErrorCode.INVALID_REQUEST
                elif entry.timestamp < 0 and SPECIAL_SINCE.get(entry.timestamp, 99) > context.api_version:
                    answer.error_code = ErrorCode.UNSUPPORTED_VERSION
                else:
                    try:
                        found = await self._find(topic.name, entry, request, deadline)
                        answer.timestamp, answer.offset, answer.leader_epoch = found
                    except Exception as failure:
                        answer.error_code = self._code_of(failure, context)
                answers.append(answer)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)

    async def _find(
        self, topic: str, entry: ListOffsetsPartition, request: ListOffsetsRequest, deadline: float
    ) -> Found:
        """Find one offset; a search is begun anew when what it came to does not count.

        Raises: LogClosed when the log never stands still; broker.partition.errors, storage.errors.
        """
        if entry.timestamp == LATEST:
            await self._partitions.get(topic, entry.partition_index).catch_up(deadline)
        for _ in range(MAX_ATTEMPTS):
            partition = self._partitions.get(topic, entry.partition_index)
            partition.ensure_leader(entry.current_leader_epoch)
            found = _known(partition, entry.timestamp, request)
            if not isinstance(found, TimeSearch):
                return found
            log, outcome = partition.log, None
            try:
                outcome = await self._pools.io(os.path.dirname(log.path), found.run)
            except LogClosed:
                continue  # a file has another name by now
            except StorageError:
                if log.holds(found):
                    raise
            if log.holds(found) and partition.is_leader:
                return outcome or NOTHING
        raise LogClosed(f"{topic}-{entry.partition_index} changes faster than it can be searched")

    def _code_of(self, failure: Exception, context: RequestContext) -> ErrorCode:
        if isinstance(failure, StorageFailure):
            self._partitions.fail_dir_of(failure)
        return code_of(failure, context)

    async def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext
    ) -> OffsetForLeaderEpochResponse:
        """Give the end offset of leader epochs, by which a consumer notices truncation."""
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[self._end_of_epoch(topic.topic, asked, context) for asked in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _end_of_epoch(self, topic: str, asked: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
        answer = EpochEndOffset(partition=asked.partition, leader_epoch=-1, end_offset=-1)
        try:
            partition = self._partitions.get(topic, asked.partition)
            partition.ensure_leader(asked.current_leader_epoch)
            answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
        except Exception as failure:
            answer.error_code = self._code_of(failure, context)
        return answer


def _known(partition: Partition, timestamp: int, request: ListOffsetsRequest) -> Found | TimeSearch:
    """Answer from memory, or give the search that has to be made."""
    log = partition.log
    is_consumer = request.replica_id == CONSUMER_REPLICA_ID
    bound = partition.bound(request.isolation_level) if is_consumer else log.log_end_offset
    if timestamp == LATEST:
        return -1, partition.visible(bound) if is_consumer else bound, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_for_offset(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        return log.largest_timestamp_search(bound) or NOTHING
    return log.time_search(timestamp, bound=bound) or NOTHING
