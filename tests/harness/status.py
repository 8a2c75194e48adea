"""A status page over real partitions and groups; whatever else it is read from are simple stand-ins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.background.recovery import Recovery
from broker.coordinator.errors import GroupIdNotFound
from broker.coordinator.group.records import CommittedOffset
from broker.coordinator.group.shard import AnyGroup
from broker.exported.parts import Watched
from broker.metadata.image import ClusterImage
from broker.metrics.instruments import BrokerStats
from broker.runtime.pools import Pools
from broker.status.pages import StatusPages
from broker.status.parts import Parts
from config.views import BrokerConfig, ListenerConfig
from storage.env.fs import Space
from storage.types import TopicPartition
from tests.harness.cleaning import CleanerBed
from tests.harness.hosted import Hosted

SECOND_NS = 1_000_000_000


class Groups:
    """As much of the group coordinator as is read: groups, and what they have committed."""

    TOPIC = "__consumer_offsets"

    def __init__(self) -> None:
        self.known: dict[str, AnyGroup] = {}
        self.committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.partitions: Counter[str] = Counter(active=50)
        self.refusal: Exception | None = None

    def add(self, group: AnyGroup, committed: Mapping[str, Mapping[int, int]] = {}) -> None:
        """Add a group with offsets by topic and partition."""
        self.known[group.group_id] = group
        self.committed[group.group_id] = {
            topic: {number: CommittedOffset(offset, -1, "", 0) for number, offset in offsets.items()}
            for topic, offsets in committed.items()
        }

    def shards(self) -> list[Any]:
        """Return two partitions of the topic, the second one empty."""
        one = SimpleNamespace(
            all_groups=lambda: iter(self.known.values()), offsets=SimpleNamespace(of_group=self.committed_offsets)
        )
        return [one, SimpleNamespace(all_groups=lambda: iter(()))]

    def group(self, group_id: str) -> AnyGroup:
        if self.refusal is not None:
            raise self.refusal
        if group_id not in self.known:
            raise GroupIdNotFound(group_id)
        return self.known[group_id]

    def committed_offsets(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self.committed[group_id]

    def count_partitions(self) -> Counter[str]:
        return self.partitions


def a_move(hosted: Hosted, **fields: Any) -> Any:
    """Return a move of t-0 between the first two directories, a quarter done."""
    source, destination = hosted.logs.dirs[:2]
    usual = {
        "tp": TopicPartition("t", 0),
        "source": source,
        "destination": destination,
        "done_bytes": 100,
        "left_bytes": 300,
        "failure": "",
        "started_ns": 0,
        "rate": lambda now_ns: 50.0,
        "left_seconds": lambda now_ns: 6.0,
    }
    return SimpleNamespace(**{**usual, **fields})


class _Coordinators:
    def __init__(self, bed: StatusBed) -> None:
        self._hosted = bed.hosted
        self.groups = bed.groups
        self.transactions = bed.transactions

    @property
    def image(self) -> ClusterImage:
        return self._hosted.image()


class StatusBed:
    """The parts, which a test changes before it asks."""

    def __init__(self, *directories: Path) -> None:
        self.hosted = Hosted(*directories, pools=Pools())
        self.groups = Groups()
        self.transactions = SimpleNamespace(
            TOPIC="__transaction_state", count_partitions=lambda: self.transaction_partitions
        )
        self.transaction_partitions: Counter[str] = Counter(active=50)
        self.coordinators: Any = _Coordinators(self)
        self.phase = SimpleNamespace(current="running")
        self.moves: list[Any] = []
        self.spaces: dict[Any, Space] = {}
        self.cleaner = CleanerBed(self.hosted).cleaner
        self.retention = SimpleNamespace(checked_count=0, to_check_count=0, last_run_seconds=0.0)
        self.stats = BrokerStats()
        self.stats.deliveries = self.hosted.delivery_stats
        listener = ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)
        assert self.hosted.disk is not None
        none = cast(Any, None)  # not read
        self.recovery = Recovery(self.hosted.logs, none, none, 1, lambda: 0)
        watched = Watched(
            stats=self.stats,
            phase=cast(Any, self.phase),
            connections=cast(Any, SimpleNamespace(connection_count=3, bound=lambda: (listener,))),
            partitions=self.hosted.manager,
            deliveries=self.hosted.deliveries,
            sessions=none,
            recovery=self.recovery,
            disk_work=self.hosted.disk,
            storage=self.hosted.logs.stats,
            cleaner=self.cleaner,
            moves=cast(Any, SimpleNamespace(running=lambda: self.moves, now_ns=lambda: 0, completed_count=2)),
            logs=self.hosted.logs,
            dir_watch=cast(Any, SimpleNamespace(spaces=self.spaces)),
            client_metrics=none,
            quotas=none,
            sync_times=none,
        )
        self.parts = Parts(
            BrokerConfig(node_id=1),
            watched,
            cast(Any, self.retention),
            lambda: self.coordinators,
            self.hosted.clock,
            started_ns=self.hosted.clock.monotonic_ns() - 90 * SECOND_NS,
        )
        self.pages = StatusPages(self.parts, self._inline)

    async def _inline(self, call: Any) -> Any:
        return call()
