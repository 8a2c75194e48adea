"""The parts of a broker that are read at a scrape."""

from __future__ import annotations

from typing import NamedTuple

from broker.api.fetch_sessions import FetchSessions
from broker.background.cleaner.run import Cleaner
from broker.background.dir_watch import DirWatch
from broker.background.disk_work import DiskWork
from broker.background.moves.run import Moves
from broker.background.recovery import Recovery
from broker.background.sync_times import SyncTimes
from broker.lifecycle import Lifecycle
from broker.live_quotas import LiveQuotas
from broker.metrics.instruments import BrokerStats
from broker.net.listener import Listeners
from broker.partition.delivery_scheduler import DeliveryScheduler
from broker.partition.manager import PartitionManager
from broker.telemetry.store import ClientMetricsStore
from storage.dirs.manager import LogManager
from storage.stats import StorageStats


class Watched(NamedTuple):
    """What is read at a scrape; coordinators come later."""

    stats: BrokerStats
    phase: Lifecycle
    connections: Listeners
    partitions: PartitionManager
    deliveries: DeliveryScheduler
    sessions: FetchSessions
    recovery: Recovery
    disk_work: DiskWork
    storage: StorageStats
    cleaner: Cleaner
    moves: Moves
    logs: LogManager
    dir_watch: DirWatch
    client_metrics: ClientMetricsStore
    quotas: LiveQuotas
    sync_times: SyncTimes
