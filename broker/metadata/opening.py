"""The metadata log as a broker opens it: where it lies, with which settings, and how long its past is kept."""

from __future__ import annotations

import os.path
from collections.abc import Callable

from broker.metadata.controller.run import SnapshotRules
from broker.metadata.controller.topics import TopicRules
from broker.metadata.damage import ensure_not_lost, ensure_whole
from broker.metadata.image import ClusterImage
from broker.metadata.log import ClusterLog, Voter, format_metadata_dir
from broker.metadata.retention import MetadataRetention
from config.build import group_config, transaction_config
from config.resolve import Resolver
from config.views import BrokerConfig, LogConfig
from storage.dirs.log_dir import LogDir
from storage.dirs.manager import LogManager
from storage.env.clock import Clock, Rng
from storage.env.fs import FileSystem
from storage.log.partition_log import PartitionLog
from storage.stats import StorageStats
from storage.types import TopicPartition

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
METADATA_LOG = "metadata log"
MAX_METADATA_BATCH_BYTES = 16 * 1024 * 1024
"""A command's batch may be half of this; the log itself only guards against nonsense."""


def take_metadata_dir(fs: FileSystem, rng: Rng, logs: LogManager, config: BrokerConfig, cluster_id: str) -> LogDir:
    """Return the directory with the metadata log: one of the data's, or one of its own, which is locked here.

    Raises: DirLocked, StorageFailure, CorruptCheckpoint. Blocking: disk.
    """
    directory = logs.dir_at(config.metadata_log_dir)
    if directory is not None:
        directory.expect(METADATA_LOG)
    else:
        directory = LogDir(fs, config.metadata_log_dir, METADATA_LOG)
        directory.open()
        directory.settle_identity(cluster_id, config.node_id, rng)
    return directory


def path_in(directory: LogDir) -> str:
    """Return where the metadata log lies in its directory."""
    return os.path.join(directory.path, str(METADATA_PARTITION))


def open_cluster_log(
    fs: FileSystem,
    clock: Clock,
    rng: Rng,
    directory: LogDir,
    cluster_id: str,
    config: BrokerConfig,
    stats: StorageStats,
    has_logs: Callable[[], bool],
) -> ClusterLog:
    """Open the log, formatting a fresh directory; it is checked before recovery could cut it.

    has_logs tells whether the directories hold logs of partitions, which an empty metadata log speaks against.

    Raises: CorruptMetadata, storage.errors. Blocking: reads the whole log.
    """
    voter = Voter(config.node_id, directory.directory_id)
    path = path_in(directory)
    is_new = not fs.exists(path)
    if is_new or not ensure_whole(fs, path):
        ensure_not_lost(fs, path, has_logs=has_logs())
    directory.begin_loading(METADATA_LOG)
    if is_new:
        directory.write_identity()
        format_metadata_dir(fs, clock, directory.path, path, voter)
    log = PartitionLog.open(
        fs,
        clock,
        rng,
        path,
        METADATA_PARTITION,
        LogConfig(
            validate_on_open=False,  # every batch has just been checked
            segment_bytes=config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
            max_message_bytes=MAX_METADATA_BATCH_BYTES,
            # What goes is what snapshots cover; the log's own age and size are no reason.
            retention_ms=-1,
            retention_bytes=-1,
            file_delete_delay_ms=config.metadata_delete_delay_ms,
        ),
        clean=directory.was_clean,
        stats=stats,
    )
    return ClusterLog(fs, clock, log, voter, cluster_id)


def snapshot_rules(config: BrokerConfig) -> SnapshotRules:
    """Return when the configuration wants snapshots, and how long they are kept."""
    return SnapshotRules(
        config.metadata_log_max_record_bytes_between_snapshots,
        config.metadata_log_max_snapshot_interval_ms,
        retention=MetadataRetention(config.metadata_max_retention_bytes, config.metadata_max_retention_ms),
    )


def topic_rules(
    resolver: Resolver,
    config: BrokerConfig,
    in_force: Callable[[ClusterImage], Resolver],
    takes_replicas: Callable[[ClusterImage], bool],
) -> TopicRules:
    """Return what the configuration says about new topics, the broker's own among them."""
    return TopicRules(config, group_config(resolver), in_force, takes_replicas, transaction_config(resolver))
