"""DescribeLogDirs (key 35). Served: 1 to 5.

- v2 flexible; v3 an error code of the whole answer; v4 size of and room in the file system; v5 the cordoned flag.
- Every configured directory has a result, an empty one too; one that is offline, or that cannot be looked at, has the
  error KAFKA_STORAGE_ERROR and nothing else. Partitions that are asked for and do not exist are passed over.
- A partition that moves is listed twice. The lag of its copy is what the copy is behind the current log, -1 where that
  one is offline; a current log has none.
- Difference from the reference: the cordoned flag is told at every metadata.version.

Source: KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs; KIP-113, KIP-827, KIP-1066.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from config.views import LONG_MAX
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.env.fs import Space
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition

UNKNOWN_LAG = -1
WORK_PER_TURN = 300
"""Names looked up, and segments counted, before others get the loop: half a millisecond."""


RunOnDisk = Callable[[str, Callable[[], Space]], Awaitable[Space]]
"""Runs a call in the I/O pool of a directory."""


class _Listed(NamedTuple):
    """One log of a directory."""

    tp: TopicPartition
    log: PartitionLog
    is_future: bool


class LogDirsApi:
    """Describes log directories."""

    def __init__(self, logs: LogManager, on_disk: RunOnDisk) -> None:
        self._logs = logs
        self._on_disk = on_disk

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, self.describe_log_dirs),)

    async def describe_log_dirs(
        self, request: DescribeLogDirsRequest, context: RequestContext
    ) -> DescribeLogDirsResponse:
        """Describe every directory and the wanted partitions in it."""
        wanted = None if request.topics is None else await self._existing(request.topics)
        spaces = await asyncio.gather(*map(self._space, self._logs.dirs), return_exceptions=True)
        # Up to the next wait nothing fails or moves: the results and the lists belong together.
        results = [
            self._described(log_dir, space, context) for log_dir, space in zip(self._logs.dirs, spaces, strict=True)
        ]
        listed = self._listed(wanted)
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.topics = await self._topics(listed[result.log_dir])
        return DescribeLogDirsResponse(results=results)

    async def _existing(self, topics: Iterable[DescribableLogDirTopic]) -> Iterable[TopicPartition]:
        """Return which of the partitions asked for have a log here, once each; the others cost no memory."""
        logs, work = self._logs, 0
        existing: dict[TopicPartition, None] = {}
        for topic in topics:
            for number in topic.partitions:
                tp = TopicPartition(topic.topic, number)
                if tp in logs.logs or tp in logs.futures:
                    existing[tp] = None
                work += 1
                if work % WORK_PER_TURN == 0:
                    await asyncio.sleep(0)
        return existing

    async def _space(self, log_dir: LogDir) -> Space:
        if log_dir.failure is not None:
            raise log_dir.failure
        return await self._on_disk(log_dir.path, log_dir.space)

    def _described(
        self, log_dir: LogDir, space: Space | BaseException, context: RequestContext
    ) -> DescribeLogDirsResult:
        """Return the result of a directory, without its logs."""
        result = DescribeLogDirsResult(log_dir=log_dir.path, is_cordoned=log_dir.path in self._logs.cordoned)
        if log_dir.failure is not None:
            space = log_dir.failure
        if isinstance(space, BaseException):
            result.error_code = code_of(space, context)
            result.is_cordoned = False
        else:
            result.total_bytes, result.usable_bytes = (min(size, LONG_MAX) for size in space)
        return result

    def _listed(self, wanted: Iterable[TopicPartition] | None) -> Mapping[str, Sequence[_Listed]]:
        """Return the logs that are to be described, by the path of their directory."""
        logs = self._logs
        listed: dict[str, list[_Listed]] = {log_dir.path: [] for log_dir in logs.dirs}
        for tp in logs.logs if wanted is None else wanted:
            log, log_dir = logs.logs.get(tp), logs.dir_of(tp)
            if log is not None and log_dir is not None:
                listed[log_dir.path].append(_Listed(tp, log, is_future=False))
        for tp in logs.futures if wanted is None else wanted:
            future = logs.futures.get(tp)
            if future is not None:
                listed[future.log_dir.path].append(_Listed(tp, future.log, is_future=True))
        return listed

    async def _topics(self, logs: Sequence[_Listed]) -> list[DescribeLogDirsTopic]:
        topics: dict[str, DescribeLogDirsTopic] = {}
        work = 0
        for tp, log, is_future in logs:
            topic = topics.setdefault(tp.topic, DescribeLogDirsTopic(name=tp.topic))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=tp.partition,
                    partition_size=log.size_bytes,
                    offset_lag=self._lag(tp, log) if is_future else 0,
                    is_future_key=is_future,
                )
            )
            work += 1 + log.segment_count
            if work >= WORK_PER_TURN:
                work = 0
                await asyncio.sleep(0)
        return list(topics.values())

    def _lag(self, tp: TopicPartition, copy: PartitionLog) -> int:
        current = self._logs.logs.get(tp)
        return UNKNOWN_LAG if current is None else max(current.log_end_offset - copy.log_end_offset, 0)
