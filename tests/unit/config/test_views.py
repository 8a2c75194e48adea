"""Views are values whose defaults are those of the table."""

from __future__ import annotations

from config.build import (
    broker_config,
    cleaner_config,
    connection_limits,
    group_config,
    log_manager_config,
    network_config,
    quota_config,
)
from config.load import load
from config.resolve import ConfigSource, Resolver
from config.views import (
    BrokerConfig,
    CleanerConfig,
    GroupConfig,
    ListenerLimits,
    LogConfig,
    LogManagerConfig,
    QuotaConfig,
    log_config,
)

EMPTY = Resolver({})


def test_default_views_equal_what_the_table_yields():
    assert log_config(EMPTY, {}) == LogConfig()
    assert log_manager_config(EMPTY) == LogManagerConfig()
    assert group_config(EMPTY) == GroupConfig()
    unlimited = cleaner_config(EMPTY)._replace(io_max_bytes_per_second=float("inf"))
    assert unlimited == CleanerConfig()
    broker = broker_config(EMPTY)
    assert broker == BrokerConfig(log_dirs=broker.log_dirs, metadata_log_dir=broker.metadata_log_dir)


def test_log_config_takes_overrides_and_broker_only_keys():
    resolver = load(None, {}, ["odradek.log.flush.on.append=true", "odradek.log.read.ahead.max.bytes=0"]).resolver
    config = log_config(resolver, {"cleanup.policy": "compact, delete", "preallocate": "TRUE", "retention.ms": "5"})
    assert config.cleanup_policy == {"compact", "delete"} and config.is_compact and config.is_delete
    assert config.preallocate and config.flush_on_append and config.read_ahead_max_bytes == 0
    assert config.retention_ms == 5
    assert config == log_config(
        resolver, {"cleanup.policy": "delete,compact", "preallocate": "true", "retention.ms": "5"}
    )


def test_empty_policy_keeps_everything():
    config = log_config(EMPTY, {"cleanup.policy": ""})
    assert not config.is_delete and not config.is_compact


def test_internal_segment_size_goes_below_the_minimum():
    assert log_config(EMPTY, {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_compaction_bound_shortens_the_roll_age():
    lag = {"max.compaction.lag.ms": "1000"}
    assert log_config(EMPTY, {"cleanup.policy": "compact", **lag}).max_segment_ms == 1000
    assert log_config(EMPTY, lag).max_segment_ms == 604_800_000


def test_compression_levels():
    config = LogConfig(compression_gzip_level=4)
    levels = {codec: config.compression_level(codec) for codec in ("gzip", "lz4", "zstd", "snappy", "none")}
    assert levels == {"gzip": 4, "lz4": 9, "zstd": 3, "snappy": None, "none": None}


def test_timestamp_type():
    assert LogConfig(message_timestamp_type="LogAppendTime").is_log_append_time
    assert not LogConfig().is_log_append_time


def test_network_limits():
    overrides = [
        "max.connections.per.ip.overrides=10.0.0.1:5, host:7",
        "max.connections=3",
        "connections.max.idle.ms=-1",
    ]
    config = network_config(load(None, {}, overrides).resolver)
    assert config.limits.max_connections_per_ip_overrides == (("10.0.0.1", 5), ("host", 7))
    assert (config.limits.max_connections, config.connections_max_idle_ms) == (3, -1)


def test_a_listener_has_limits_of_its_own_or_those_of_the_broker():
    overrides = [
        "max.connections=3",
        "max.connection.creation.rate=7",
        "listener.name.outer.max.connections=2",
        "listener.name.INNER.max.connection.creation.rate=9",
        "listener.name.inner.sasl.enabled.mechanisms=PLAIN",
    ]
    resolver = load(None, {}, overrides).resolver
    limits = connection_limits(resolver)
    assert limits.of_listener("OUTER") == ListenerLimits(2, 7)
    assert limits.of_listener("inner") == ListenerLimits(3, 9)
    assert limits.of_listener("other") == ListenerLimits(3, 7)
    live = resolver.with_layers(
        {
            ConfigSource.DYNAMIC_BROKER: {"listener.name.outer.max.connections": "many"},
            ConfigSource.DYNAMIC_DEFAULT_BROKER: {"listener.name.outer.max.connection.creation.rate": "5"},
        }
    )
    assert connection_limits(live).of_listener("outer") == ListenerLimits(2, 5)


def test_windows_of_quotas():
    overrides = ["quota.window.num=5", "quota.window.size.seconds=2", "controller.quota.window.num=3"]
    assert quota_config(load(None, {}, overrides).resolver) == QuotaConfig(5, 2, 3, 1)


def test_metadata_directory_and_segment():
    overrides = ["metadata.log.dir=/meta/", "internal.metadata.log.segment.bytes=100", "log.dirs=/a"]
    config = broker_config(load(None, {}, overrides).resolver)
    assert (config.metadata_log_dir, config.metadata_log_segment_bytes) == ("/meta", 100)
