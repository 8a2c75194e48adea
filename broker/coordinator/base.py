"""What coordinators have in common: each serves the partitions of its internal topic that are led here.

Which partition a key belongs to depends on how many the topic has. Without the topic nobody has any state; it is
created when it is first needed, and when it is deleted all state goes with it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection
from typing import ClassVar, Generic, TypeVar

from broker.coordinator.errors import CoordinatorNotAvailable
from broker.coordinator.internal_topics import InternalTopics, changed_leaders, partition_for
from broker.coordinator.log import CoordinatorLog
from broker.coordinator.runtime import CoordinatorRuntime, TaskSpawner
from broker.coordinator.shard import Outcome, Shard
from broker.coordinator.timers import Timers, TimeSource
from broker.metadata.image import ClusterImage, Delta
from protocol.errors import ErrorCode

S = TypeVar("S", bound=Shard)


class Coordinator(ABC, Generic[S]):
    """One kind of coordinator."""

    NAME: ClassVar[str]
    TOPIC: ClassVar[str]

    def __init__(
        self,
        node_id: int,
        log: CoordinatorLog,
        tasks: TaskSpawner,
        time_source: TimeSource,
        internal_topics: InternalTopics,
        *,
        now_ms: Callable[[], int],
        error_code: Callable[[BaseException], ErrorCode],
        max_batch_bytes: int,
    ) -> None:
        self._node_id = node_id
        self._error_code = error_code
        self._tasks = tasks
        self._now_ms = now_ms
        self._internal_topics = internal_topics
        self._timers = Timers(time_source)
        self._runtime: CoordinatorRuntime[S] = CoordinatorRuntime(
            self.NAME,
            log,
            tasks,
            now_ms,
            time_source.now_ms,
            error_code,
            self._new_shard,
            max_batch_bytes=max_batch_bytes,
        )
        self.stats = self._runtime.stats
        # Partitions of the topic; 0 while it does not exist. Written by serve.
        self._partition_count = 0
        self._is_closed = False

    @abstractmethod
    def _new_shard(self, partition: int) -> S:
        """Make the empty state of a partition."""

    @abstractmethod
    def _start_periodic(self) -> None:
        """Start what is done now and then, since there is a topic now."""

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow the cluster: serve the partitions that are led here, as long as there is a topic."""
        if any(topic.name == self.TOPIC for topic in delta.deleted_topics):
            self.serve(0, ())
        leaders = changed_leaders(delta, image, self.TOPIC)
        if leaders is not None:
            self.serve(len(leaders), [number for number, leader in enumerate(leaders) if leader == self._node_id])

    def serve(self, partition_count: int, led: Collection[int]) -> None:
        """Serve the partitions of the topic that are led here, once each is replayed.

        One that is led no longer is let go: whoever is parked there is sent away.
        """
        if self._is_closed:
            return
        if partition_count and not self._partition_count:
            self._start_periodic()
        self._partition_count = partition_count
        self._runtime.serve(led)

    def is_led(self, key: str) -> bool:
        """Tell whether the key's coordinator is this broker; without the topic nobody's is."""
        if self._is_closed or not self._partition_count:
            return False
        return partition_for(key, self._partition_count) in self._runtime.partitions()

    async def ensure_topic(self) -> bool:
        """Create the topic unless it exists; tells whether it is served."""
        created = await self._internal_topics.ensure(self.TOPIC)
        return created and self._partition_count > 0

    def close(self) -> None:
        """Send everyone who is parked away and stop all timers."""
        self._is_closed = True
        self._runtime.unload_all()
        self._timers.close()

    def count_partitions(self) -> Counter[str]:
        """Count the partitions that are served by how far they are, for metrics."""
        return self._runtime.count_by_state()

    @property
    def has_no_topic(self) -> bool:
        """Tell whether there is no state because there is no topic."""
        return not self._partition_count and not self._is_closed

    async def _submit_everywhere(self, command: Callable[[S], Outcome[None]]) -> None:
        """Run a command in every partition, each in a turn of its own: it may look at all that is kept there."""
        for partition in self._runtime.active_partitions():
            self._runtime.submit(partition, command)
            await asyncio.sleep(0)

    def _partition(self, key: str, missing: Callable[[], Exception]) -> int:
        """Give the partition a key belongs to. Raises: CoordinatorNotAvailable; `missing` when there is no topic."""
        if self._is_closed:
            raise CoordinatorNotAvailable
        if not self._partition_count:
            raise missing()
        return partition_for(key, self._partition_count)
