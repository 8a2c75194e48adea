"""The composition root: the only place where the broker's parts are made and tied together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

from broker.api.controllers import controller_table
from broker.api.dispatch import Dispatcher
from broker.api.families import Rooms, families, fetch_family
from broker.api.fetch import FetchApi
from broker.api.fetch_sessions import FetchSessions, random_session_id
from broker.api.route import Route
from broker.api.table import join
from broker.background.dir_reports import DirReports
from broker.background.dir_watch import DirWatch
from broker.background.disk_work import DiskWork
from broker.background.recovery import Recovery
from broker.background.sync_times import SyncTimes
from broker.coordinators import Coordinators
from broker.exported.parts import Watched
from broker.http_side import HttpSide
from broker.lifecycle import Lifecycle, Step, log_ready, nothing
from broker.live_quotas import LiveQuotas
from broker.live_settings import LiveSettings
from broker.metadata.change_log import ChangeLog
from broker.metadata.controller.brokers import registration_of
from broker.metadata.controller.run import Controller
from broker.metadata.image import ClusterImage, Delta
from broker.metadata.live_config import LiveConfig
from broker.metadata.opening import (
    METADATA_LOG,
    open_cluster_log,
    snapshot_rules,
    take_metadata_dir,
    topic_rules,
)
from broker.metrics.instruments import BrokerStats
from broker.net.listener import Listeners
from broker.net.pages import PageLoader
from broker.partition.delivery_scheduler import DeliveryScheduler
from broker.partition.manager import PartitionManager
from broker.runtime.descriptors import ask_for_this_thread, first_reserved, open_segments
from broker.runtime.garbage import Undisturbed
from broker.runtime.memory import page_cache_bytes
from broker.runtime.pools import Pools
from broker.runtime.scheduler import Scheduler
from broker.runtime.tasks import TaskOwner
from broker.status.parts import Parts
from broker.telemetry.store import ClientMetricsStore
from broker.upkeep import Upkeep
from config.build import (
    broker_config,
    group_config,
    log_manager_config,
    metrics_config,
    network_config,
    quota_config,
)
from config.resolve import Resolver
from config.views import ListenerConfig, log_config
from protocol.api_keys import ApiKey
from protocol.uuids import random_uuid
from storage.dirs.errors import NoUsableDir
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.env.clock import SystemClock, SystemRng
from storage.env.posix import PosixFileSystem
from storage.errors import StorageFailure
from storage.log.page_budget import PageCacheBudget
from storage.segment.open_files import OpenFiles
from storage.stats import StorageStats

logger = logging.getLogger(__name__)

METADATA_HOUSEKEEPING_MS = 60_000
"""How often old parts of the metadata log are looked for, as in Kafka; snapshots that are due by time may be sooner."""
DRAIN_SHARE = 0.5
"""The part of the stop's bound that clients get; the rest is for flushing what they were acknowledged."""


class Broker:
    """One broker, from its configuration to its stop.

    It changes nothing of its process, which may host many: signals, limits, interpreter and log are `serve`'s.
    """

    def __init__(self, resolver: Resolver, open_files_limit: int, undisturbed: Undisturbed = nullcontext) -> None:
        self._resolver = resolver  # of the static configuration; what is in force is known once there is an image
        self._undisturbed = undisturbed
        self._config = broker_config(resolver)
        self._network = network_config(resolver)
        self._log_config = log_manager_config(resolver)
        self._live = LiveConfig(resolver, self._config.node_id)
        self._clock = SystemClock()
        self._sync_times = SyncTimes(self._clock.monotonic_ns)
        self._fs = PosixFileSystem(self._sync_times.run)
        self._rng = SystemRng()
        self._started_ns = self._clock.monotonic_ns()
        self._stats = BrokerStats()
        self._client_metrics = ClientMetricsStore()
        self._storage_stats = StorageStats()
        self._storage_stats.on_activated = self._stats.deliveries.observe_lateness
        self._pools = Pools()
        self._scheduler = Scheduler()
        self._tasks = TaskOwner("broker")
        self._asked_to_stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._status = 0
        self.listeners: tuple[ListenerConfig, ...] = ()  # set when their ports are bound
        page_cache = PageCacheBudget(page_cache_bytes())
        self._logs = LogManager(
            self._fs,
            self._clock,
            self._rng,
            self._config.log_dirs,
            producer_id_expiration_ms=self._log_config.producer_id_expiration_ms,
            stats=self._storage_stats,
            page_cache=page_cache,
            open_files=OpenFiles(open_segments(open_files_limit), ask_for_this_thread()),
        )
        self._sync_times.follow((*(log_dir.path for log_dir in self._logs.dirs), self._config.metadata_log_dir))
        self._recovery = Recovery(
            self._logs,
            self._pools,
            self._scheduler,
            self._log_config.recovery_threads_per_data_dir,
            self._clock.monotonic_ns,
        )
        self._dir_reports = DirReports(
            self._logs,
            lambda log_dir: log_dir is self._metadata_dir,
            self._give_up,
            self._log_config.dir_failure_timeout_ms,
        )
        self._disk_work = DiskWork(self._pools, self._clock, page_cache, self._fs.drop_cached)
        self._deliveries = DeliveryScheduler(
            self._scheduler,
            self._clock,
            self._pools.io,
            log_config(resolver, {}).delivery_clock_uncertainty_ms,
            self._stats.deliveries,
        )
        self._partitions = PartitionManager(
            self._logs,
            self._config.node_id,
            self._live.log_config,
            self._clock.now_ms,
            self._dir_reports.on_lost,
            self._disk_work,
            self._deliveries,
        )
        self._dir_watch = DirWatch(self._logs, self._dir_reports, self._pools)
        self._upkeep = Upkeep(
            resolver,
            self._live,
            self._logs,
            self._partitions,
            self._disk_work,
            self._pools,
            self._clock,
            self._rng,
            self._image,
            lambda directories: self._controller.assign_directories(directories),
        )
        self._sessions = FetchSessions(
            self._config.max_incremental_fetch_session_cache_slots,
            partial(random_session_id, self._rng),
            self._scheduler.now_ms,
        )
        self._quotas = LiveQuotas(quota_config(resolver), self._network, self._clock.monotonic_ns, self._tasks)
        read_ahead_bytes = log_config(resolver, {}).read_ahead_max_bytes
        self._listeners = Listeners(
            self._network,
            self._scheduler,
            PageLoader(self._pools, self._tasks, read_ahead_bytes, self._partitions.fail_dir_of),
            rates=self._quotas.connections,
            first_reserved_fd=first_reserved(open_files_limit),
        )
        self._settings = LiveSettings(
            self._live, self._logs, self._recovery, self._listeners, self._upkeep.moves, metrics_config(resolver)
        )
        self._cluster_id = ""
        self._metadata_dir: LogDir
        self._controller: Controller
        self._fetch: FetchApi
        self._coordinators: Coordinators | None = None
        self._http: HttpSide
        self.lifecycle = Lifecycle(
            (
                # 1. whoever watches us learns at once that we are alive and why we are not ready
                Step("http", self._open_http, self._close_http),
                # 2. nothing is read before the directories are ours
                Step("log directories", self._lock_dirs, self._close_logs),
                # 3. a port that is taken must end the start before a long recovery
                Step("ports", self._bind, self._unbind),
                # 4. logs are loaded with the settings of their topics
                Step("metadata log", self._load_metadata, self._close_metadata),
                # 5. nobody leads a log before it is whole
                Step("log recovery", self._load_logs, nothing),
                # 6. the image tells which partitions there are and who leads them
                Step("cluster metadata", self._start_controller, self._stop_tasks),
                # 7. groups are replayed from partitions
                Step("coordinators", self._start_coordinators, self._stop_coordinators),
                # 8. stopped before logs are closed: a job on a closed file would look like a failed disk
                Step("background work", self._start_background, self._stop_background),
                # 9. last: a client that connects finds everything in place
                Step("listeners", self._open_listeners, self._drain_listeners),
            )
        )

    # --- running ---

    @property
    def http_port(self) -> int | None:
        """The port of the pages, None where they are off."""
        return self._http.port

    async def start(self) -> None:
        """Start to serve. Raises: StorageError, MetadataError, OSError, and then everything is stopped again."""
        await self.lifecycle.start()

    async def wait(self) -> None:
        """Wait until somebody asks to stop, or the broker cannot go on."""
        reason = await asyncio.shield(self._asked_to_stop)
        logger.log(logging.ERROR if self._status else logging.INFO, "stopping reason=%s", reason)

    def ask_to_stop(self, reason: str) -> bool:
        """Let `wait` end; False when that was asked before."""
        if self._asked_to_stop.done():
            return False
        self._asked_to_stop.set_result(reason)
        return True

    async def stop(self) -> int:
        """Stop; the exit status. Raises: TimeoutError; what is late is left to the recovery of the next start."""
        limit_ms = self._config.shutdown_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                clean = await self.lifecycle.stop()
        except TimeoutError:
            logger.error("stop took too long step=%r limit_ms=%d", self.lifecycle.current, limit_ms)
            raise
        status = self._status if clean else 1
        logger.info("stopped status=%d", status)
        return status

    def say_ready(self) -> None:
        """Log the ready line."""
        took_s = (self._clock.monotonic_ns() - self._started_ns) / 1e9
        log_ready(self._config, self._cluster_id, self.listeners, self.http_port, took_s)

    def _give_up(self, reason: str) -> None:
        """Stop, and let the exit status tell that it was not wanted."""
        self._status = 1
        self.ask_to_stop(reason)

    def _on_lost_metadata(self, failure: BaseException) -> None:
        """Stop: without its metadata log the broker could only answer from the past."""
        if isinstance(failure, StorageFailure):
            self._dir_reports.fail(self._metadata_dir, failure)
        self._give_up(f"the cluster metadata failed: {failure}")

    # --- steps ---

    async def _open_http(self) -> None:
        parts = Parts(
            self._config,
            self._watched(),
            self._upkeep.retention,
            lambda: self._coordinators,
            self._clock,
            started_ns=self._started_ns,
        )
        self._http = HttpSide(parts, self._pools, self._scheduler, lambda: self._settings.metrics, self._undisturbed)
        await self._http.open()

    async def _close_http(self) -> None:
        await self._http.close()
        self._pools.close()

    async def _lock_dirs(self) -> None:
        wanted = self._config.cluster_id
        self._cluster_id = self._logs.open_dirs(self._config.node_id, wanted)
        if wanted not in (None, self._cluster_id):
            logger.info("log directories keep their cluster.id=%s odradek.cluster.id=%s", self._cluster_id, wanted)
        self._metadata_dir = take_metadata_dir(self._fs, self._rng, self._logs, self._config, self._cluster_id)

    async def _close_logs(self) -> None:
        await self._http.leave_logs()
        await self._recovery.close()
        if self._metadata_dir not in self._logs.dirs:
            self._metadata_dir.mark_clean(-1)
            self._metadata_dir.release()

    async def _bind(self) -> None:
        self.listeners = self._listeners.bind()

    async def _unbind(self) -> None:
        self._listeners.stop_accepting()

    async def _load_logs(self) -> None:
        image = self._image()
        config_of = cache(lambda topic: self._live.log_config(topic, image))
        await self._recovery.load(lambda tp: config_of(tp.topic))
        if not any(self._logs.online_dirs()):
            raise NoUsableDir("no log directory is left: each has failed while its logs were loaded")
        if self._metadata_dir.failure is not None:
            raise self._metadata_dir.failure

    async def _load_metadata(self) -> None:
        log = open_cluster_log(
            self._fs,
            self._clock,
            self._rng,
            self._metadata_dir,
            self._cluster_id,
            self._config,
            self._storage_stats,
            self._logs.has_logs,
        )
        self._controller = Controller(
            log,
            topic_rules(self._resolver, self._config, self._live.resolver, self._settings.takes_replicas),
            snapshot_rules(self._config),
            self._clock,
            self._rng,
            self._on_metadata_disk,
            TaskOwner("controller", self._on_lost_metadata),
        )
        self._dir_reports.join(self._partitions, self._controller)
        self._metadata_dir.note_loaded(METADATA_LOG)
        try:
            self._controller.load()
            self._settings.apply(self._image())
            self._metadata_dir.write_identity()
        except BaseException:
            await self._close_metadata()  # a step that fails is not stopped
            raise

    async def _start_controller(self) -> None:
        self._controller.subscribe(self._partitions.publish, self._prepare_logs)
        self._controller.subscribe(self._settings.publish)
        self._controller.subscribe(self._quotas.publish)
        self._controller.subscribe(self._upkeep.cleaner.publish)
        self._controller.subscribe(self._upkeep.moves.publish)
        self._controller.subscribe(self._dir_reports.publish)
        self._controller.subscribe(self._follow_coordinators)
        self._controller.subscribe(ChangeLog(self._image()).publish)
        await self._controller.start(
            registration_of(
                self._config,
                self.listeners,
                (log_dir.directory_id for log_dir in self._logs.online_dirs()),
                incarnation_id=random_uuid(self._rng.random_bytes),
            ),
            self._partitions.whereabouts(self._image()),
        )
        self._partitions.say_away()

    async def _stop_tasks(self) -> None:
        await self._dir_reports.close()
        await self._deliveries.close()
        await self._tasks.close()

    async def _close_metadata(self) -> None:
        was_online = self._metadata_dir.is_online
        try:
            await self._controller.close()
        except StorageFailure as failure:
            self._metadata_dir.fail(failure)  # else its marker would vouch for a log that was not closed
            if was_online:
                raise

    async def _start_coordinators(self) -> None:
        self._coordinators = Coordinators(
            self._config.node_id,
            self._controller,
            self._partitions,
            self._tasks,
            self._scheduler,
            self._clock,
            self._rng,
            self._resolver,
            self._live,
            self._pools,
        )
        self._coordinators.start()

    async def _stop_coordinators(self) -> None:
        if self._coordinators is not None:
            self._coordinators.close()

    async def _start_background(self) -> None:
        self._dir_watch.start(self._scheduler, self._metadata_dir)
        self._quotas.start(self._scheduler)
        await self._upkeep.start(self._scheduler)
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms or METADATA_HOUSEKEEPING_MS
        self._scheduler.every("metadata", min(interval_ms, METADATA_HOUSEKEEPING_MS), self._controller.housekeep)

    async def _stop_background(self) -> None:
        await self._upkeep.close()
        await self._scheduler.close()
        await self._disk_work.close()

    async def _open_listeners(self) -> None:
        assert self._coordinators is not None
        rooms = Rooms(
            self._config,
            group_config(self._resolver),
            self._live,
            self._pools,
            self._controller,
            self._partitions,
            self._coordinators.groups,
            self._coordinators.transactions,
            self._coordinators.producer_ids,
            self._sessions,
            self._upkeep.checkpoints.save_log_starts,
            self._upkeep.moves,
            self._logs,
            self._coordinators.verifier,
            self._coordinators.markers,
            self._clock,
            self._rng,
            self._client_metrics,
            self._image,
            self._listeners.controller_listeners,
        )
        self._fetch = fetch_family(rooms)
        table: dict[ApiKey, Route] = {}
        table.update(join(families(rooms, self._fetch, table)))
        dispatcher_of = partial(
            Dispatcher, stats=self._stats, quotas=self._quotas.clients, monotonic_ns=self._clock.monotonic_ns
        )
        for_controllers = controller_table(table, self._image, self._config.node_id)
        self._listeners.open(
            dispatcher_of(table), dispatcher_of(for_controllers) if self._listeners.controller_listeners else None
        )

    async def _drain_listeners(self) -> None:
        self._listeners.stop_accepting()
        # Whoever waits is answered, else nothing would end the wait.
        self._fetch.stop()
        await self._stop_coordinators()
        await self._listeners.drain(self._config.shutdown_timeout_ms * DRAIN_SHARE)

    # --- wiring ---

    def _image(self) -> ClusterImage:
        return self._controller.image

    def _follow_coordinators(self, delta: Delta, image: ClusterImage) -> None:
        if self._coordinators is not None:
            self._coordinators.publish(delta, image)

    async def _prepare_logs(self, delta: Delta, image: ClusterImage) -> None:
        create = self._partitions.missing_logs(delta, image)
        if create is not None:
            for failure in await self._on_metadata_disk(create):
                self._partitions.fail_dir_of(failure)

    async def _on_metadata_disk(self, call: Callable[[], Any]) -> Any:
        return await self._pools.io(self._config.metadata_log_dir, call)

    def _watched(self) -> Watched:
        return Watched(
            self._stats,
            self.lifecycle,
            self._listeners,
            self._partitions,
            self._deliveries,
            self._sessions,
            self._recovery,
            self._disk_work,
            self._storage_stats,
            self._upkeep.cleaner,
            self._upkeep.moves,
            self._logs,
            self._dir_watch,
            self._client_metrics,
            self._quotas,
            self._sync_times,
        )
