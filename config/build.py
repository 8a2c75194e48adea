"""From values to views: the broker-wide views of config.views, built from a Resolver."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from config.consistency import ALL_LOG_DIRS, log_dirs_key
from config.errors import InvalidConfig, invalid_value
from config.keys import GROUP_KEYS
from config.listeners import inter_broker_listener, read_listeners, resolvable_host_name
from config.resolve import Resolver
from config.views import (
    LONG_MAX,
    BrokerConfig,
    CleanerConfig,
    ConnectionLimits,
    ConsumerGroupConfig,
    GroupConfig,
    GroupSettings,
    ListenerLimits,
    LogManagerConfig,
    MetricsConfig,
    MoveConfig,
    NetworkConfig,
    QuotaConfig,
    TransactionConfig,
    VerificationConfig,
)


def network_config(resolver: Resolver, host_name: Callable[[], str | None] = resolvable_host_name) -> NetworkConfig:
    """Build the view of sockets and limits. Raises InvalidConfig for listeners that clients could not use."""
    get = resolver.get
    listeners = read_listeners(resolver, host_name)
    return NetworkConfig(
        listeners=listeners.of_broker,
        controller_listeners=listeners.of_controller,
        inter_broker_listener_name=inter_broker_listener(resolver, listeners.of_broker),
        socket_request_max_bytes=get("socket.request.max.bytes"),
        socket_send_buffer_bytes=get("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes=get("socket.receive.buffer.bytes"),
        socket_listen_backlog_size=get("socket.listen.backlog.size"),
        connections_max_idle_ms=get("connections.max.idle.ms"),
        limits=connection_limits(resolver),
    )


def connection_limits(resolver: Resolver) -> ConnectionLimits:
    """Build the view of how many connections may be open."""
    get = resolver.get
    return ConnectionLimits(
        max_connections=get("max.connections"),
        max_connections_per_ip=get("max.connections.per.ip"),
        max_connections_per_ip_overrides=_per_ip_limits(get("max.connections.per.ip.overrides")),
        max_connection_creation_rate=get("max.connection.creation.rate"),
        of_listeners=_limits_of_listeners(resolver),
    )


def _limits_of_listeners(resolver: Resolver) -> tuple[tuple[str, ListenerLimits], ...]:
    keys = ("max.connections", "max.connection.creation.rate")
    inherited = ListenerLimits(*(resolver.get(key) for key in keys))
    found: dict[str, ListenerLimits] = {}
    for field, key in zip(ListenerLimits._fields, keys, strict=True):
        for listener, limit in resolver.values_of_listeners(key).items():
            found[listener] = found.get(listener, inherited)._replace(**{field: limit})
    return tuple(sorted(found.items()))


def quota_config(resolver: Resolver) -> QuotaConfig:
    """Build the view of how rates are sampled for quotas."""
    get = resolver.get
    return QuotaConfig(
        window_num=get("quota.window.num"),
        window_size_seconds=get("quota.window.size.seconds"),
        controller_window_num=get("controller.quota.window.num"),
        controller_window_size_seconds=get("controller.quota.window.size.seconds"),
    )


def broker_config(resolver: Resolver) -> BrokerConfig:
    """Build the view of identity, directories and broker-wide rules. Raises InvalidConfig for a doubled directory."""
    get = resolver.get
    log_dirs = read_log_dirs(resolver)
    metadata_log_dir = get("metadata.log.dir")
    return BrokerConfig(
        node_id=get("node.id"),
        rack=get("broker.rack"),
        cluster_id=get("odradek.cluster.id"),
        log_dirs=log_dirs,
        metadata_log_dir=log_dirs[0] if metadata_log_dir is None else os.path.abspath(metadata_log_dir),
        num_partitions=get("num.partitions"),
        default_replication_factor=get("default.replication.factor"),
        min_insync_replicas=get("min.insync.replicas"),
        auto_create_topics_enable=get("auto.create.topics.enable"),
        delete_topic_enable=get("delete.topic.enable"),
        message_max_bytes=get("message.max.bytes"),
        fetch_max_bytes=get("fetch.max.bytes"),
        max_incremental_fetch_session_cache_slots=get("max.incremental.fetch.session.cache.slots"),
        max_request_partition_size_limit=get("max.request.partition.size.limit"),
        request_timeout_ms=get("request.timeout.ms"),
        controlled_shutdown_enable=get("controlled.shutdown.enable"),
        metadata_log_segment_bytes=_metadata_segment_bytes(resolver),
        metadata_log_segment_ms=get("metadata.log.segment.ms"),
        metadata_max_retention_bytes=get("metadata.max.retention.bytes"),
        metadata_max_retention_ms=get("metadata.max.retention.ms"),
        metadata_log_max_record_bytes_between_snapshots=get("metadata.log.max.record.bytes.between.snapshots"),
        metadata_log_max_snapshot_interval_ms=get("metadata.log.max.snapshot.interval.ms"),
        metadata_delete_delay_ms=get("internal.metadata.delete.delay.millis"),
        unstable_api_versions_enable=get("unstable.api.versions.enable"),
        authorizer_class_name=get("authorizer.class.name"),
        telemetry_max_bytes=get("telemetry.max.bytes"),
        http_listener=_http_listener(get("odradek.http.listener")),
        logger_levels=_logger_levels(get("odradek.logger.levels")),
        http_status_page=get("odradek.http.status.page"),
        shutdown_timeout_ms=get("odradek.shutdown.timeout.ms"),
    )


def metrics_config(resolver: Resolver) -> MetricsConfig:
    """Build the view of what the metrics page shows."""
    return MetricsConfig(resolver.get("odradek.metrics.families"), resolver.get("odradek.metrics.per.partition"))


def _logger_levels(elements: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = (element.partition("=") for element in elements)
    return tuple((name, level.upper()) for name, _, level in pairs)


def log_manager_config(resolver: Resolver) -> LogManagerConfig:
    """Build the view of the periodic work on all logs."""
    get = resolver.get
    return LogManagerConfig(
        retention_check_interval_ms=get("log.retention.check.interval.ms"),
        flush_scheduler_interval_ms=get("log.flush.scheduler.interval.ms"),
        flush_offset_checkpoint_interval_ms=get("log.flush.offset.checkpoint.interval.ms"),
        flush_start_offset_checkpoint_interval_ms=get("log.flush.start.offset.checkpoint.interval.ms"),
        high_watermark_checkpoint_interval_ms=get("replica.high.watermark.checkpoint.interval.ms"),
        initial_task_delay_ms=get("log.initial.task.delay.ms"),
        recovery_threads_per_data_dir=get("num.recovery.threads.per.data.dir"),
        dir_failure_timeout_ms=get("log.dir.failure.timeout.ms"),
        producer_id_expiration_ms=get("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms=get("producer.id.expiration.check.interval.ms"),
    )


def cleaner_config(resolver: Resolver) -> CleanerConfig:
    """Build the view of the compaction workers."""
    get = resolver.get
    return CleanerConfig(
        enable=get("log.cleaner.enable"),
        threads=get("log.cleaner.threads"),
        dedupe_buffer_size=get("log.cleaner.dedupe.buffer.size"),
        io_buffer_size=get("log.cleaner.io.buffer.size"),
        io_buffer_load_factor=get("log.cleaner.io.buffer.load.factor"),
        io_max_bytes_per_second=get("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=get("log.cleaner.backoff.ms"),
    )


def move_config(resolver: Resolver) -> MoveConfig:
    """Build the view of the moves between log directories."""
    get = resolver.get
    threads, rate = get("num.replica.alter.log.dirs.threads"), get("replica.alter.log.dirs.io.max.bytes.per.second")
    return MoveConfig(
        threads=max(1, len(_log_dir_entries(resolver)) if threads is None else threads),
        max_bytes_per_second=LONG_MAX if rate is None else rate,
        backoff_ms=get("replica.fetch.backoff.ms"),
        chunk_bytes=get("replica.fetch.max.bytes"),
    )


def group_config(resolver: Resolver) -> GroupConfig:
    """Build the view of consumer groups and their offsets."""
    get = resolver.get
    return GroupConfig(
        initial_rebalance_delay_ms=get("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=get("group.min.session.timeout.ms"),
        max_session_timeout_ms=get("group.max.session.timeout.ms"),
        max_size=get("group.max.size"),
        offset_metadata_max_bytes=get("offset.metadata.max.bytes"),
        offset_commit_timeout_ms=get("offsets.commit.timeout.ms"),
        offsets_topic_num_partitions=get("offsets.topic.num.partitions"),
        offsets_topic_replication_factor=get("offsets.topic.replication.factor"),
        offsets_topic_segment_bytes=get("offsets.topic.segment.bytes"),
        offsets_topic_compression_codec=get("offsets.topic.compression.codec"),
        offsets_load_buffer_size=get("offsets.load.buffer.size"),
        offsets_retention_minutes=get("offsets.retention.minutes"),
        offsets_retention_check_interval_ms=get("offsets.retention.check.interval.ms"),
        rebalance_protocols=get("group.coordinator.rebalance.protocols"),
        consumer=consumer_group_config(resolver),
    )


def transaction_config(resolver: Resolver) -> TransactionConfig:
    """Build the view of transactions."""
    get = resolver.get
    return TransactionConfig(
        max_timeout_ms=get("transaction.max.timeout.ms"),
        id_expiration_ms=get("transactional.id.expiration.ms"),
        abort_interval_ms=get("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expire_interval_ms=get("transaction.remove.expired.transaction.cleanup.interval.ms"),
        topic_num_partitions=get("transaction.state.log.num.partitions"),
        topic_segment_bytes=get("transaction.state.log.segment.bytes"),
    )


def verification_config(resolver: Resolver) -> VerificationConfig:
    """Build the view of how transactions are verified."""
    get = resolver.get
    return VerificationConfig(
        partition_verification_enable=get("transaction.partition.verification.enable"),
        retry_backoff_ms=get("add.partitions.to.txn.retry.backoff.ms"),
        retry_backoff_max_ms=get("add.partitions.to.txn.retry.backoff.max.ms"),
    )


def consumer_group_config(resolver: Resolver) -> ConsumerGroupConfig:
    """Build the view of groups of the consumer protocol; of it only the assignment interval may change."""
    get = resolver.get
    policy = get("group.consumer.migration.policy").lower()
    return ConsumerGroupConfig(
        defaults=GroupSettings(
            get("group.consumer.session.timeout.ms"),
            get("group.consumer.heartbeat.interval.ms"),
            get("group.consumer.assignment.interval.ms"),
        ),
        lowest=GroupSettings(
            get("group.consumer.min.session.timeout.ms"),
            get("group.consumer.min.heartbeat.interval.ms"),
            get("group.consumer.min.assignment.interval.ms"),
        ),
        highest=GroupSettings(
            get("group.consumer.max.session.timeout.ms"),
            get("group.consumer.max.heartbeat.interval.ms"),
            get("group.consumer.max.assignment.interval.ms"),
        ),
        max_size=get("group.consumer.max.size"),
        assignors=get("group.consumer.assignors"),
        allows_upgrade=policy in ("upgrade", "bidirectional"),
        allows_downgrade=policy in ("downgrade", "bidirectional"),
        regex_refresh_interval_ms=get("group.consumer.regex.refresh.interval.ms"),
    )


def group_settings(config: ConsumerGroupConfig, overrides: Mapping[str, str]) -> GroupSettings:
    """Build the view of one group; an override the broker's bounds leave out (they were moved) counts as the bound."""
    if not overrides:
        return config.defaults
    return GroupSettings(
        *(
            min(max(_group_value(name, overrides, default), lowest), highest)
            for name, default, lowest, highest in zip(
                GROUP_SETTING_KEYS, config.defaults, config.lowest, config.highest, strict=True
            )
        )
    )


GROUP_SETTING_KEYS = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
"""In the order of the fields of GroupSettings."""


def _group_value(name: str, overrides: Mapping[str, str], default: int) -> int:
    if name not in overrides:
        return default
    try:
        value: int = GROUP_KEYS[name].parse(overrides[name])
    except InvalidConfig:  # it was refused when it was set, so it is not ours to complain of here
        return default
    return value


def read_log_dirs(resolver: Resolver) -> tuple[str, ...]:
    """Return the log directories as absolute paths without trailing slash, so that every spelling is one directory.

    Raises InvalidConfig when two spellings, or two links, lead to one directory: its logs would be opened twice.
    """
    key = log_dirs_key(resolver)
    paths: dict[str, str] = {}
    for spelling in resolver.get(key):
        path = os.path.abspath(spelling)
        if (real := os.path.realpath(path)) in paths:
            raise invalid_value(key, ",".join(resolver.get(key)), f"the directory {path} is given twice")
        paths[real] = path
    return tuple(paths.values())


def cordoned_log_dirs(resolver: Resolver) -> frozenset[str]:
    """Return the paths of the log directories that take no new replicas, spelt as read_log_dirs does."""
    entries = resolver.get("cordoned.log.dirs")
    return frozenset(map(os.path.abspath, _log_dir_entries(resolver) if ALL_LOG_DIRS in entries else entries))


def _log_dir_entries(resolver: Resolver) -> tuple[str, ...]:
    entries: tuple[str, ...] = resolver.get(log_dirs_key(resolver))
    return entries


def _metadata_segment_bytes(resolver: Resolver) -> int:
    for_tests: int | None = resolver.get("internal.metadata.log.segment.bytes")
    segment_bytes: int = resolver.get("metadata.log.segment.bytes")
    return segment_bytes if for_tests is None else for_tests


def _http_listener(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _per_ip_limits(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (pair.strip().rpartition(":") for pair in text.split(",") if pair.strip())
    return tuple((host, int(count)) for host, _, count in pairs)
