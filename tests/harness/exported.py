"""All that a broker exports, with real partitions and simple stand-ins for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.background.recovery import Recovery
from broker.background.sync_times import SyncTimes
from broker.coordinator.stats import GroupStats, RuntimeStats
from broker.exported.parts import Watched
from broker.exported.sources import broker_sources
from broker.lag.snapshot import LagSnapshot
from broker.lag.watch import LagWatch
from broker.live_quotas import LiveQuotas
from broker.metrics.instruments import BrokerStats, Histogram
from broker.metrics.loop_watch import LoopWatch
from broker.partition.partition import Partition
from broker.runtime.pools import Pools
from broker.telemetry.otlp import Point
from broker.telemetry.store import ClientMetricsStore
from config.views import ConnectionLimits, LogConfig, MetricsConfig, NetworkConfig, QuotaConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.records.builder import build_batch
from storage.env.fs import Space
from storage.types import TopicPartition
from tests.harness.cleaning import CleanerBed
from tests.harness.hosted import NOW_MS, Hosted
from tests.harness.prometheus import registry_of


def exported_parts(directory: Path) -> ExportedParts:
    """Return parts with one topic of two partitions, three records, and a few requests."""
    hosted = Hosted(directory, pools=Pools())
    partition = hosted.create("t", partitions=2)
    partition.append(build_batch([(None, b"a"), (None, b"b")], timestamp=NOW_MS))
    hosted.manager.get("t", 1).append(build_batch([(None, b"c")], timestamp=NOW_MS))
    partition.log.increment_log_start_offset(1)
    parts = ExportedParts(hosted)
    stats = parts.stats.of("produce")
    stats.received_bytes += 100
    for seconds in (0.0004, 0.003, 99.0):
        stats.latency.observe(seconds)
    parts.stats.refused_frames += 2
    stats.observe_wait(0.0001, 0.2)
    stats.count_errors([int(ErrorCode.MESSAGE_TOO_LARGE)] * 2)
    return parts


class ExportedParts:
    """Sources over real partitions; the rest are plain numbers."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.stats = BrokerStats()
        self.stats.deliveries = hosted.delivery_stats
        self.config = MetricsConfig()
        self.phase = SimpleNamespace(current="running")
        self.group_stats, self.runtime_stats = GroupStats(), RuntimeStats()
        self.coordinators: Any = SimpleNamespace(
            image=hosted.current,
            groups=SimpleNamespace(
                count_partitions=lambda: Counter(active=50),
                group_stats=self.group_stats,
                stats=self.runtime_stats,
            ),
            transactions=SimpleNamespace(
                count_by_state=lambda: {"Ongoing": 3},
                completing_count=5,
                retrying_count=2,
                timed_out_count=7,
                count_partitions=lambda: Counter(loading=1, active=49),
                stats=RuntimeStats(),
            ),
            verifier=SimpleNamespace(seconds=Histogram(), failure_count=4),
        )
        connections: Any = _Connections()
        assert hosted.disk is not None
        pools = scheduler = cast(Any, None)  # what was loaded is only looked at
        recovery = Recovery(hosted.logs, pools, scheduler, 1, lambda: 0)
        self.cleaner = CleanerBed(hosted).cleaner
        self.cleaner._passes[TopicPartition("t", 1)] = cast(
            Any, SimpleNamespace(tp=TopicPartition("t", 1), read_bytes=70, left_bytes=30)
        )
        self.client_metrics = ClientMetricsStore()
        self.client_metrics.put("i", "app", [Point("m.x", (("node", "1"),), 2.5, False)])
        self.now_ns = 0
        self.quotas = LiveQuotas(QuotaConfig(), NetworkConfig(), lambda: self.now_ns, cast(Any, None))
        self._exceed_quotas()
        sync_times = SyncTimes(lambda: 0)
        sync_times.follow(log_dir.path for log_dir in hosted.logs.dirs)
        watched = Watched(
            self.stats,
            self.phase,
            connections,
            hosted.manager,
            hosted.deliveries,
            _Sessions(),
            recovery,
            hosted.disk,
            hosted.logs.stats,
            self.cleaner,
            cast(Any, _Moves()),
            hosted.logs,
            cast(Any, SimpleNamespace(spaces={hosted.logs.dirs[0]: Space(900, 400)})),
            self.client_metrics,
            self.quotas,
            sync_times,
        )
        lag = LagWatch(hosted.manager, hosted.pools, hosted.clock)
        lag.latest = _behind()
        loop = LoopWatch(lambda: 0, lambda: 0)
        self.sources = tuple(
            broker_sources(watched, lambda: self.coordinators, lag, lambda: 0.25, lambda: self.now_ns, loop)
        )
        self.registry = registry_of(self.sources, lambda: self.config)

    def _exceed_quotas(self) -> None:
        """Two clients have gone over their quotas, and many connections were made."""
        quotas, connections = self.quotas.clients, self.quotas.connections
        quotas.follow({(("client-id", None),): {"producer_byte_rate": 100.0, "controller_mutation_rate": 2.0}})
        for client_id, size in (("a", 2_000), ("b", 1_500), ("a", 0)):
            meter = quotas.meter("User:ann", client_id, size, 0)
            meter.produced(is_answered=True)
            meter.settle()
        quota = quotas.meter("User:ann", "a", 0, 0).mutations(strict=True)
        assert quota is not None and quota.charge(5)
        connections.limit(ConnectionLimits(max_connection_creation_rate=1))
        for _ in range(11):
            connections.delay_ms("PLAINTEXT")

    def schedule(self, *delays_ms: int) -> Partition:
        """Make a scheduled topic, "later", with a record for each of the delays; return its only partition."""
        partition = self.hosted.create("later", config=LogConfig(delivery_mode="scheduled", delivery_max_delay_ms=-1))
        for delay_ms in delays_ms:
            partition.append(build_batch([(None, b"x")], timestamp=NOW_MS + delay_ms))
        return partition

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of one series, None where there is none."""
        return self.registry.get_sample_value(name, labels)


def _behind() -> LagSnapshot:
    """Return what a look came to that has found one group, one topic, one partition."""
    found = LagSnapshot()
    found.counts.update({("classic", "Stable"): 1, ("consumer", "Stable"): 1})
    found.group_labels, found.state_labels = [("g",)], [("g", "classic", "Stable")]
    found.members, found.epochs, found.commit_seconds = [2], [7], [NOW_MS / 1000]
    found.max_lags, found.max_seconds = [5], [0.5]
    found.topic_labels, found.topic_committed, found.topic_lags = [("g", "t")], [11], [5]
    found.partition_labels, found.committed, found.lags, found.seconds = [("g", "t", "0")], [11], [5], [0.5]
    found.oldest_labels, found.oldest_seconds = [("t", "0")], [NOW_MS / 1000]
    found.left_out["partitions"] = 3
    return found


class _Connections:
    """A connection that waits for data and holds a large request, and one that does nothing."""

    accepted_count = 9

    def __iter__(self) -> Iterator[Any]:
        listener = SimpleNamespace(name="PLAINTEXT")
        yield SimpleNamespace(
            kept=b"four",
            own=bytearray(100),
            own_filled=60,
            outbox=SimpleNamespace(size_bytes=7),
            waiting=object(),
            muted=False,
            context=SimpleNamespace(api_key=ApiKey.FETCH),
            listener=listener,
        )
        yield SimpleNamespace(
            kept=b"", own=None, outbox=SimpleNamespace(size_bytes=0), waiting=None, muted=False, listener=listener
        )


class _Sessions:
    partition_count = 30
    evicted_count = 1

    def __len__(self) -> int:
        return 3


class _Moves:
    """One move, between two directories."""

    failing_count, completed_count, copied_bytes = 1, 5, 900
    throttle = SimpleNamespace(limit=1000)
    move = SimpleNamespace(
        tp=TopicPartition("t", 0),
        source=SimpleNamespace(path="/a"),
        destination=SimpleNamespace(path="/b"),
        done_bytes=300,
        left_bytes=100,
        lag=7,
        rate=lambda now_ns: now_ns / 2,
        left_seconds=lambda now_ns: 2.0,
    )

    def running(self) -> list[Any]:
        return [self.move]

    def now_ns(self) -> int:
        return 100
