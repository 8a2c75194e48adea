"""DeleteRecords (key 21). Served: 0 to 2; v2 flexible.

- -1 deletes up to the high watermark. An offset at or below the log start succeeds and changes nothing.
- The answer is sent once the new log start is on disk; what concurrent requests changed is written together.
- Scheduled records whose time has not come stay, and so does what follows them: the answer tells how far it went.
- Segments that lie wholly below go with the next retention pass; until then only the log start hides their records.
- There is one replica to wait for. A long log may have to be searched for what has come due: a partition for which that
  takes longer than `timeout_ms` is REQUEST_TIMED_OUT, with nothing deleted, and the next try finds it known.

Partitions stand alone: one that is refused does not hold up its neighbours.
Source: KafkaApis.handleDeleteRecordsRequest, ReplicaManager.deleteRecordsOnLocalLog, KIP-107.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.errors import InvalidTopic
from broker.metadata.names import INTERNAL_TOPICS
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from protocol.api_keys import ApiKey
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from storage.errors import LogClosed

NO_LOW_WATERMARK = -1


class DeleteRecordsApi:
    """Moves log starts on a client's demand. `save_log_starts` returns when every start set before is durable."""

    def __init__(self, partitions: PartitionManager, save_log_starts: Callable[[], Awaitable[None]]) -> None:
        self._partitions = partitions
        self._save_log_starts = save_log_starts

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.DELETE_RECORDS, 0, 2, self.delete_records),)

    async def delete_records(self, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
        """Delete the records of partitions below an offset."""
        deadline = asyncio.get_running_loop().time() + max(0, request.timeout_ms) / 1000
        accepted: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
        topics = []
        for topic in request.topics:
            results = []
            for asked in topic.partitions:
                result = DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=NO_LOW_WATERMARK
                )
                results.append(result)
                try:
                    accepted.append((await self._delete(topic.name, asked, deadline), result))
                except Exception as failure:
                    result.error_code = code_of(failure, context)
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        if accepted:
            context.outlives_peer = True
            await self._save_log_starts()
        for partition, result in accepted:
            if partition.log.is_closed:  # deleted meanwhile, or its directory did not take the new start
                result.error_code = code_of(LogClosed(str(partition.tp)), context)
            else:
                result.low_watermark = partition.log.log_start_offset
        return DeleteRecordsResponse(topics=topics)

    async def _delete(self, topic: str, asked: DeleteRecordsPartition, deadline: float) -> Partition:
        partition = self._partitions.get(topic, asked.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot delete records of internal topic {topic}.")
        await partition.catch_up(deadline)
        partition = self._partitions.get(topic, asked.partition_index)
        while partition.is_on_hold:  # else the log that takes over might begin before what was deleted
            await partition.room()
            partition = self._partitions.get(topic, asked.partition_index)
        partition.delete_records(asked.offset)
        return partition
