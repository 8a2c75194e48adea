"""AlterReplicaLogDirs (key 34). Served: 1 to 2; v2 flexible.

- A success says that the move is accepted; DescribeLogDirs tells how far it is.
- A partition that stands under several paths goes to the last one. Its result is given once.

Partitions stand alone: one that is refused does not hold up its neighbours.
Source: KafkaApis.handleAlterReplicaLogDirsRequest, ReplicaManager.alterReplicaLogDirs; KIP-113.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from protocol.api_keys import ApiKey
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from storage.types import TopicPartition

PARTITIONS_PER_TURN = 100
"""Many are answered without a wait: so many, and others get the loop."""

AlterLogDir = Callable[[TopicPartition, str], Awaitable[None]]
"""Begins, redirects or cancels the move of a partition to a path; raises why it cannot."""


class AlterLogDirsApi:
    """Moves partitions between log directories."""

    def __init__(self, alter: AlterLogDir) -> None:
        self._alter = alter

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, self.alter_replica_log_dirs),)

    async def alter_replica_log_dirs(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext
    ) -> AlterReplicaLogDirsResponse:
        """Let each partition go to its directory, one after the other."""
        context.outlives_peer = True
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        for count, (tp, path) in enumerate(_last_paths(request.dirs).items(), 1):
            result = AlterReplicaLogDirPartitionResult(partition_index=tp.partition)
            try:
                await self._alter(tp, path)
            except Exception as failure:
                result.error_code = code_of(failure, context)
            topic = topics.setdefault(tp.topic, AlterReplicaLogDirTopicResult(topic_name=tp.topic))
            topic.partitions.append(result)
            if count % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _last_paths(dirs: Iterable[AlterReplicaLogDir]) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.name, number): entry.path
        for entry in dirs
        for topic in entry.topics
        for number in topic.partitions
    }
