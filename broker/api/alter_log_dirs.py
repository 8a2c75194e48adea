"""AlterReplicaLogDirs (key 34). Served: 1 to 2; v2 flexible.

- A success says that the move is accepted; DescribeLogDirs tells how far it is.
- A partition that stands under several paths goes to the last one. Its result is given once.

Partitions stand alone: one that is refused does not hold up its neighbours.
Source: KafkaApis.handleAlterReplicaLogDirsRequest, ReplicaManager.alterReplicaLogDirs; KIP-113.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.runtime.tasks import TaskOwner
from protocol.api_keys import ApiKey
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from storage.types import TopicPartition

PARTITIONS_PER_TURN = 64
"""So many are begun at once: they share the syncs of their directories, and others get the loop in between."""

AlterLogDir = Callable[[TopicPartition, str], Awaitable[None]]
"""Begins, redirects or cancels the move of a partition to a path; raises why it cannot."""


class AlterLogDirsApi:
    """Moves partitions between log directories."""

    def __init__(self, alter: AlterLogDir) -> None:
        self._alter = alter
        self._tasks = TaskOwner("alter log dirs")

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, self.alter_replica_log_dirs),)

    async def alter_replica_log_dirs(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext
    ) -> AlterReplicaLogDirsResponse:
        """Let each partition go to its directory, a few of them at once."""
        context.outlives_peer = True
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        wanted = iter(_last_paths(request.dirs).items())
        while some := list(islice(wanted, PARTITIONS_PER_TURN)):
            results = [AlterReplicaLogDirPartitionResult(partition_index=tp.partition) for tp, _ in some]
            tasks = [
                self._tasks.spawn(str(tp), self._alter_one(tp, path, result, context))
                for (tp, path), result in zip(some, results, strict=True)
            ]
            await asyncio.wait(tasks)
            for (tp, _), result in zip(some, results, strict=True):
                topic = topics.setdefault(tp.topic, AlterReplicaLogDirTopicResult(topic_name=tp.topic))
                topic.partitions.append(result)
        return AlterReplicaLogDirsResponse(results=list(topics.values()))

    async def _alter_one(
        self, tp: TopicPartition, path: str, result: AlterReplicaLogDirPartitionResult, context: RequestContext
    ) -> None:
        try:
            await self._alter(tp, path)
        except Exception as failure:
            result.error_code = code_of(failure, context)


def _last_paths(dirs: Iterable[AlterReplicaLogDir]) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.name, number): entry.path
        for entry in dirs
        for topic in entry.topics
        for number in topic.partitions
    }
