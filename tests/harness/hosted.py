"""Partitions over real logs in a temporary directory, told what there is by images a test makes itself."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

from broker.api.route import RequestContext
from broker.background.disk_work import DiskWork
from broker.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    Delta,
    EndpointImage,
    PartitionImage,
    TopicImage,
    partitions_of,
)
from broker.metrics.instruments import DeliveryStats
from broker.partition.delivery_scheduler import DeliveryScheduler
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from config.views import ListenerConfig, LogConfig
from protocol.api_keys import ApiKey
from storage.dirs.manager import LogManager
from storage.env.clock import SeededRng
from storage.env.fs import FileSystem
from storage.env.posix import PosixFileSystem
from storage.log.page_budget import PageCacheBudget
from storage.stats import StorageStats
from storage.types import TopicPartition

NODE_ID = 1
OTHER_ID = 2
NOW_MS = 1_700_000_000_000
LISTENER = ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)


class ManualClock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.wall_ms = NOW_MS
        self.set_by_ms = 0  # how far somebody has set the wall clock

    def now_ms(self) -> int:
        return self.wall_ms + self.set_by_ms

    def monotonic_ns(self) -> int:
        return self.wall_ms * 1_000_000


class ManualTimers:
    """Timers of a ManualClock, which moves on from call to call (broker.partition.delivery_scheduler.Timers)."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        """Call back once the clock has got there."""
        entry = (self.clock.wall_ms + delay_ms, next(self._numbers), callback)
        heapq.heappush(self._calls, entry)
        return ManualTimer(self._calls, entry)

    @property
    def next_in_ms(self) -> float | None:
        """How long it is until the next call; None when there is none to come."""
        return self._calls[0][0] - self.clock.wall_ms if self._calls else None

    def pass_ms(self, ms: int) -> None:
        """Let time pass, from one call to the next."""
        until_ms = self.clock.wall_ms + ms
        while self._calls and self._calls[0][0] <= until_ms:
            at_ms, _, callback = heapq.heappop(self._calls)
            self.clock.wall_ms = max(self.clock.wall_ms, math.ceil(at_ms))
            callback()
        self.clock.wall_ms = until_ms


class ManualTimer(NamedTuple):
    """A call that is to come."""

    calls: list[tuple[float, int, Callable[[], None]]]
    entry: tuple[float, int, Callable[[], None]]

    def cancel(self) -> None:
        """Let it not come."""
        if self.entry in self.calls:
            self.calls.remove(self.entry)
            heapq.heapify(self.calls)


def topic_id_of(name: str, incarnation: int = 1) -> bytes:
    """Give the id that topics of this name get here."""
    return name.encode().ljust(15, b".")[:15] + bytes([incarnation])


def broker_image(node_id: int) -> BrokerImage:
    """Give a registered broker with one PLAINTEXT endpoint."""
    endpoint = EndpointImage("PLAINTEXT", f"host{node_id}", 9000 + node_id, 0)
    return BrokerImage(node_id, 0, bytes(16), (endpoint,), (), f"rack{node_id}", False, False, ())


class IdleDisk:
    """Remembers what partitions ask of the background, and does nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []  # (what, partition, offset)

    def flush(self, partition: Partition, below: int) -> None:
        self.asked.append(("flush", partition.tp.partition, below))

    def flush_in_time(self, partition: Partition) -> None:
        if partition.log.durability.ms_until_flush(NOW_MS) is not None:
            self.asked.append(("flush in time", partition.tp.partition, -1))

    def write(self, partition: Partition) -> None:
        self.asked.append(("write", partition.tp.partition, partition.log.log_end_offset))

    def write_back(self, partition: Partition) -> None:
        self.asked.append(("write back", partition.tp.partition, partition.log.log_end_offset))


class Hosted:
    """One broker's partitions, as the API families see them; with pools given, their background work is done there."""

    def __init__(
        self,
        *directories: Path,
        pools: Pools | None = None,
        page_cache_bytes: int = -1,
        fs: FileSystem | None = None,
        seed: int = 1,
    ) -> None:
        self.clock = ManualClock()
        self.pools = pools or Pools()
        self.fs: FileSystem = fs or PosixFileSystem()
        self.page_cache = PageCacheBudget(page_cache_bytes)
        self.dropped: list[tuple[str, int, int]] = []  # what the kernel was told to forget: path, position, size
        self.delivery_stats = DeliveryStats()
        storage_stats = StorageStats()
        storage_stats.on_activated = self.delivery_stats.observe_lateness
        self.logs = LogManager(
            self.fs,
            self.clock,
            SeededRng(seed),
            [str(path) for path in directories],
            stats=storage_stats,
            page_cache=self.page_cache,
        )
        self.logs.open_dirs(NODE_ID)
        self.logs.load_all(lambda tp: LogConfig())
        self.configs: dict[str, LogConfig] = {}
        self.inherited = LogConfig()
        self.lost_dirs: list[str] = []
        self.idle_disk = IdleDisk()
        self.disk: DiskWork | None = None
        if pools is not None:
            self.disk = DiskWork(pools, self.clock, self.page_cache, lambda *drop: self.dropped.append(drop))
        self.timers = ManualTimers(self.clock)
        self.deliveries = DeliveryScheduler(
            self.timers, self.clock, self.pools.io, LogConfig().delivery_clock_uncertainty_ms, self.delivery_stats
        )
        self.manager = PartitionManager(
            self.logs,
            NODE_ID,
            self._config_for,
            self.clock.now_ms,
            lambda lost, _: self.lost_dirs.append(lost.path),
            self.disk or self.idle_disk,
            self.deliveries,
        )
        self.current = ClusterImage("cluster", brokers={node: broker_image(node) for node in (NODE_ID, OTHER_ID)})

    def _config_for(self, topic: str, image: ClusterImage) -> LogConfig:
        return self.configs.get(topic, self.inherited)

    def image(self) -> ClusterImage:
        return self.current

    def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        leader: int = NODE_ID,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] = (NODE_ID,),
        epoch: int = 0,
        incarnation: int = 1,
        config: LogConfig | None = None,
    ) -> Partition:
        """Create a topic and give its partition 0, where it is hosted here."""
        if config is not None:
            self.configs[name] = config
        placed = PartitionImage(leader, epoch, 0, replicas, isr if isr is not None else replicas, (bytes(16),))
        topic = TopicImage(name, topic_id_of(name, incarnation), (placed,) * partitions)
        self._publish(
            {**self.current.topics_by_name, name: topic},
            Delta(created_topics=(topic,), created_partitions=tuple(partitions_of(topic))),
        )
        return self.manager.find((name, 0))  # type: ignore[return-value]

    def start_with(self, incarnations: Mapping[str, int], epoch: int = 0, *, directory_id: bytes = bytes(16)) -> None:
        """Publish the whole image of a cluster that has these topics, in one directory, as a start does."""
        placed = PartitionImage(NODE_ID, epoch, 0, (NODE_ID,), (NODE_ID,), (directory_id,))
        topics = {name: TopicImage(name, topic_id_of(name, one), (placed,)) for name, one in incarnations.items()}
        created = tuple(topics.values())
        partitions = tuple(entry for topic in created for entry in partitions_of(topic))
        self._publish(topics, Delta(created_topics=created, created_partitions=partitions))

    def lead(self, name: str, leader: int, epoch: int, isr: tuple[int, ...] = (NODE_ID,)) -> None:
        """Give the topic's partitions to a leader in an epoch."""
        before = self.current.topics_by_name[name]
        placed = tuple(one._replace(leader=leader, leader_epoch=epoch, isr=isr) for one in before.partitions)
        topic = TopicImage(name, before.topic_id, placed)
        self._publish(
            {**self.current.topics_by_name, name: topic}, Delta(changed_partitions=tuple(partitions_of(topic)))
        )

    def configure(self, name: str, config: LogConfig) -> None:
        """Change a topic's settings."""
        self.configs[name] = config
        self._publish(self.current.topics_by_name, Delta(changed_configs=frozenset({(TOPIC_RESOURCE, name)})))

    def configure_broker(self, name: str, inherited: LogConfig) -> None:
        """Change what topics inherit by a change of one broker or, with an empty name, of all."""
        self.inherited = inherited
        self._publish(self.current.topics_by_name, Delta(changed_configs=frozenset({(BROKER_RESOURCE, name)})))

    def delete(self, name: str) -> None:
        """Delete a topic."""
        topics = dict(self.current.topics_by_name)
        gone = topics.pop(name)
        self._publish(topics, Delta(deleted_topics=(gone,), deleted_partitions=tuple(partitions_of(gone))))

    def _publish(self, topics: Mapping[str, TopicImage], delta: Delta) -> None:
        self.current = ClusterImage(
            "cluster",
            topics_by_name=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()},
            brokers=self.current.brokers,
        )
        self.manager.publish(delta, self.current)

    def path_of(self, name: str, partition: int = 0) -> Path:
        """Give the directory of a partition's log."""
        return Path(self.logs.logs[TopicPartition(name, partition)].path)


def context(api_key: ApiKey, version: int, *, client_id: str = "test") -> RequestContext:
    """Give what a handler is told beside its request."""
    return RequestContext(1, LISTENER, "127.0.0.1", api_key, version, 7, client_id)
