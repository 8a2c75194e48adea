"""Typed views: frozen values that the other rooms read instead of asking for keys by name.

Each view is built once from a Resolver and is a plain value afterwards: equal fields, equal views. A field bears its
key's name with dots turned into underscores; the views of one theme drop the theme's prefix. Numbers keep Kafka's own
conventions (-1 = unlimited, 2^63-1 = never), so comparisons in the storage code read as in the specification.

The broker-wide views are made once a process and never replaced in part, so they are NamedTuples: creating one more
frozen dataclass class costs a start over a millisecond.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

NO_DECOMPRESSED_LIMIT = INT_MAX - 8
"""The default of max.decompressed.message.bytes; it counts as no limit at all."""


class Values(Protocol):
    """What a view is built from: see config.resolve.Resolver."""

    def get(self, name: str) -> Any:
        """Return the broker-level value of a key."""

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Any:
        """Return the value of a topic key under a topic's overrides."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Every tunable of one partition log: topic override, else broker synonym, else default."""

    # Segments and their indexes.
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    # Durability.
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    flush_on_append: bool = False
    validate_on_open: bool = True
    # Retention: any negative value is "unlimited".
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    # What an append accepts and how it is stored.
    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = NO_DECOMPRESSED_LIMIT
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    # Cleaning.
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    # Replication.
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    # Tiering: -2 means "as the total retention".
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    # Scheduled delivery.
    delivery_mode: str = "immediate"
    delivery_max_delay_ms: int = 604_800_000
    delivery_schedule_monotonic: bool = False
    delivery_clock_uncertainty_ms: int = 250
    # How files are read and written; broker only, fixed until a restart.
    read_buffer_cap_bytes: int = 4 * 1024 * 1024
    read_ahead_max_bytes: int = 4 * 1024 * 1024
    timestamp_scan_window_bytes: int = 64 * 1024
    tail_cache_bytes: int = 8 * 1024 * 1024
    writeback_window_bytes: int = 8 * 1024 * 1024
    page_cache_budget_bytes: int | None = None

    @property
    def is_delete(self) -> bool:
        """Tell whether time and size retention apply."""
        return "delete" in self.cleanup_policy

    @property
    def is_compact(self) -> bool:
        """Tell whether the log is compacted, which also makes keys mandatory; a scheduled one is not, whatever it says.

        The two exclude each other, but what was stored by hand may hold both.
        """
        return "compact" in self.cleanup_policy and not self.is_scheduled

    @property
    def is_scheduled(self) -> bool:
        """Tell whether batches are held back from consumers until their time has come."""
        return self.delivery_mode == "scheduled"

    @property
    def is_log_append_time(self) -> bool:
        """Tell whether the broker's clock stamps every batch; not on a scheduled log, as above."""
        return self.message_timestamp_type == "LogAppendTime" and not self.is_scheduled

    @property
    def max_segment_ms(self) -> int:
        """Return the age at which a segment rolls; a compaction bound shortens it, as only rolled data is cleaned."""
        if self.is_compact and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    def compression_level(self, codec: str) -> int | None:
        """Return the level the broker encodes with, or None for codecs that have no levels."""
        if codec == "gzip":
            return self.compression_gzip_level
        if codec == "lz4":
            return self.compression_lz4_level
        if codec == "zstd":
            return self.compression_zstd_level
        return None


class CleanerConfig(NamedTuple):
    """What the compaction workers share."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    io_buffer_size: int = 524_288
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000


class LogManagerConfig(NamedTuple):
    """Periods and limits of the work done across all logs of a broker."""

    retention_check_interval_ms: int = 300_000
    flush_scheduler_interval_ms: int = LONG_MAX
    flush_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    initial_task_delay_ms: int = 30_000
    recovery_threads_per_data_dir: int = 2
    dir_failure_timeout_ms: int = 30_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000


class MoveConfig(NamedTuple):
    """How replicas move between the log directories; may change while the broker runs, all but `threads`."""

    threads: int = 1
    max_bytes_per_second: int = LONG_MAX
    """Shared by all moves; LONG_MAX = unlimited."""
    backoff_ms: int = 1_000
    chunk_bytes: int = 1_048_576
    """Most bytes of one read, but one batch at least."""


class ListenerConfig(NamedTuple):
    """One listener: where we accept and what clients are told to connect to."""

    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int


class ListenerLimits(NamedTuple):
    """How many connections to one listener may be open, and made in a second."""

    max_connections: int = INT_MAX
    max_connection_creation_rate: int = INT_MAX


class ConnectionLimits(NamedTuple):
    """How many connections may be open, and made in a second; may change while the broker runs."""

    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = ()
    max_connection_creation_rate: int = INT_MAX
    of_listeners: tuple[tuple[str, ListenerLimits], ...] = ()
    """Those that have limits of their own, in lower case."""

    def of_listener(self, name: str) -> ListenerLimits:
        """Return the limits of one listener; without own ones, as much as all may have together."""
        for listener, limits in self.of_listeners:
            if listener == name.lower():
                return limits
        return ListenerLimits(self.max_connections, self.max_connection_creation_rate)


class QuotaConfig(NamedTuple):
    """How rates are sampled for the quotas of clients, and of changes of the cluster."""

    window_num: int = 11
    window_size_seconds: int = 1
    controller_window_num: int = 11
    controller_window_size_seconds: int = 1


class NetworkConfig(NamedTuple):
    """Sockets and frames, and the limits on connections to begin with."""

    listeners: tuple[ListenerConfig, ...] = (
        ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092),
    )
    controller_listeners: tuple[ListenerConfig, ...] = ()
    """Where administrators ask the controller; clients are not told of them."""
    inter_broker_listener_name: str = "PLAINTEXT"
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    socket_listen_backlog_size: int = 50
    connections_max_idle_ms: int = 600_000
    limits: ConnectionLimits = ConnectionLimits()


class BrokerConfig(NamedTuple):
    """Identity, directories and the broker-wide rules of topics and requests."""

    node_id: int = 1
    rack: str | None = None
    cluster_id: str | None = None
    """What log directories get when all are fresh; None for a random one."""
    log_dirs: tuple[str, ...] = ()
    metadata_log_dir: str = ""
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    message_max_bytes: int = 1_048_588
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    max_request_partition_size_limit: int = 2_000
    request_timeout_ms: int = 30_000
    controlled_shutdown_enable: bool = True
    metadata_log_segment_bytes: int = 1024 * 1024 * 1024
    metadata_log_segment_ms: int = 604_800_000
    metadata_max_retention_bytes: int = 104_857_600
    metadata_max_retention_ms: int = 604_800_000
    metadata_log_max_record_bytes_between_snapshots: int = 20_971_520
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    metadata_delete_delay_ms: int = 60_000
    unstable_api_versions_enable: bool = False
    authorizer_class_name: str = ""
    telemetry_max_bytes: int = 1_048_576
    http_listener: tuple[str, int] | None = ("127.0.0.1", 9404)
    logger_levels: tuple[tuple[str, str], ...] = ()
    """Loggers with the levels they have at the start, in upper case."""
    http_status_page: bool = True
    shutdown_timeout_ms: int = 20_000


class MetricsConfig(NamedTuple):
    """What the metrics page shows."""

    families: tuple[str, ...] = ("odradek", "jmx", "kafka_exporter")
    per_partition: bool = True


class GroupSettings(NamedTuple):
    """What one group of the consumer protocol may have set for itself."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ConsumerGroupConfig(NamedTuple):
    """Groups of the consumer protocol (KIP-848): their defaults, and the bounds of what a group may set for itself."""

    defaults: GroupSettings = GroupSettings()
    lowest: GroupSettings = GroupSettings(45_000, 5_000, 0)
    highest: GroupSettings = GroupSettings(60_000, 15_000, 15_000)
    max_size: int = INT_MAX
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first one assigns where members name none."""
    allows_upgrade: bool = True
    """A group of the classic protocol with members may become one of the consumer protocol, and..."""
    allows_downgrade: bool = True
    """... the other way round."""
    regex_refresh_interval_ms: int = 600_000


class GroupConfig(NamedTuple):
    """Consumer groups and the offsets topic."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = INT_MAX
    offset_metadata_max_bytes: int = 4_096
    offset_commit_timeout_ms: int = 5_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600
    offsets_topic_compression_codec: int = 0
    offsets_load_buffer_size: int = 5_242_880
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    consumer: ConsumerGroupConfig = ConsumerGroupConfig()


class TransactionConfig(NamedTuple):
    """Transactions and the topic of their state."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    """How often transactions past their timeout are looked for."""
    expire_interval_ms: int = 3_600_000
    """How often idle transactional ids are looked for."""
    topic_num_partitions: int = 50
    topic_segment_bytes: int = 104_857_600


class VerificationConfig(NamedTuple):
    """How the first append of a transaction is verified with the transaction coordinator."""

    partition_verification_enable: bool = True
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 100


_BROKER_ONLY_FIELDS = (
    "flush_on_append",
    "validate_on_open",
    "read_buffer_cap_bytes",
    "read_ahead_max_bytes",
    "timestamp_scan_window_bytes",
    "tail_cache_bytes",
    "writeback_window_bytes",
    "page_cache_budget_bytes",
    "delivery_clock_uncertainty_ms",
)
"""Fields of LogConfig that no topic can override; their keys carry our prefix."""

_TOPIC_FIELDS = {f.name: f.name.replace("_", ".") for f in fields(LogConfig) if f.name not in _BROKER_ONLY_FIELDS}
"""The other fields → topic keys."""

_FIELDS_BY_KEY = {key: name for name, key in _TOPIC_FIELDS.items()}


def log_config(values: Values, overrides: Mapping[str, str]) -> LogConfig:
    """Build the view of one log from the broker's values and its topic's overrides."""
    inherited = LogConfig(
        **{name: values.get("odradek.log." + name.replace("_", ".")) for name in _BROKER_ONLY_FIELDS},
        **{name: _topic_field(values, key, {}) for name, key in _TOPIC_FIELDS.items()},
    )
    return with_overrides(inherited, values, overrides)


def with_overrides(inherited: LogConfig, values: Values, overrides: Mapping[str, str]) -> LogConfig:
    """Build the view of one log from what all logs inherit; for many topics this is the short way."""
    changed = {_FIELDS_BY_KEY[key]: _topic_field(values, key, overrides) for key in overrides if key in _FIELDS_BY_KEY}
    segment_bytes = values.topic_value("internal.segment.bytes", overrides)
    if segment_bytes is not None:
        changed["segment_bytes"] = segment_bytes
    return replace(inherited, **changed) if changed else inherited


def _topic_field(values: Values, key: str, overrides: Mapping[str, str]) -> Any:
    value = values.topic_value(key, overrides)
    return frozenset(value) if isinstance(value, tuple) else value
