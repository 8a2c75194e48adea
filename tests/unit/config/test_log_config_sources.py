"""Where each field of LogConfig comes from, layer by layer, against a list that is not made from the table."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import pytest

from config.broker_changes import checked_broker_configs
from config.errors import InvalidConfig
from config.keys import BROKER_KEYS, TOPIC_KEYS
from config.overrides import checked_topic_configs
from config.resolve import Resolver
from config.sources import SourcedValue
from config.views import LogConfig, log_config

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Source(NamedTuple):
    """One field: its topic key, the broker keys behind it in order of precedence, its default, and its bounds."""

    field: str
    topic_key: str | None
    broker_keys: tuple[tuple[str, int], ...]
    """(name, factor to the field's unit)"""
    default: Any
    samples: tuple[str, str, str, str]
    """Four legal texts, one a layer, the default not among them."""
    refused: tuple[str, ...] = ()


def number(field: str, topic_key: str, broker_keys: Any, default: int, *refused: Any, base: int = 2_000_000) -> Source:
    """Describe a field that takes any number from `base` on."""
    keys = ((broker_keys, 1),) if isinstance(broker_keys, str) else broker_keys
    samples = tuple(str(base + step) for step in (1, 2, 3, 4))
    return Source(field, topic_key, keys, default, samples, tuple(str(one) for one in refused))  # type: ignore[arg-type]


def flag(field: str, topic_key: str | None, *broker_keys: str, default: bool = False) -> Source:
    texts = ("false", "TRUE", "false", " True ") if not default else ("true", "False", "true", "false")
    return Source(field, topic_key, tuple((key, 1) for key in broker_keys), default, texts, ("yes", "", "1"))


SOURCES = (
    number("segment_bytes", "segment.bytes", "log.segment.bytes", 1_073_741_824, 1_048_575, INT_MAX + 1),
    number("segment_ms", "segment.ms", (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)), 7 * DAY_MS, 0, LONG_MAX + 1),
    number(
        "segment_jitter_ms",
        "segment.jitter.ms",
        (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
        0,
        -1,
    ),
    number("segment_index_bytes", "segment.index.bytes", "log.index.size.max.bytes", 10_485_760, 3),
    number("index_interval_bytes", "index.interval.bytes", "log.index.interval.bytes", 4096, -1),
    number("file_delete_delay_ms", "file.delete.delay.ms", "log.segment.delete.delay.ms", 60_000, -1),
    flag("preallocate", "preallocate", "log.preallocate"),
    number("flush_messages", "flush.messages", "log.flush.interval.messages", LONG_MAX, 0),
    number(
        "flush_ms",
        "flush.ms",
        (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        LONG_MAX,
        -1,
    ),
    number(
        "retention_ms",
        "retention.ms",
        (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
        7 * DAY_MS,
        -2,
    ),
    number("retention_bytes", "retention.bytes", "log.retention.bytes", -1, "1.5"),
    number("max_message_bytes", "max.message.bytes", "message.max.bytes", 1_048_588, -1, INT_MAX + 1),
    number(
        "max_decompressed_message_bytes",
        "max.decompressed.message.bytes",
        "max.decompressed.message.bytes",
        2_147_483_639,
        0,
    ),
    Source(
        "compression_type",
        "compression.type",
        (("compression.type", 1),),
        "producer",
        ("gzip", "lz4", "zstd", "uncompressed"),
        ("none", "GZIP", ""),
    ),
    Source(
        "compression_gzip_level",
        "compression.gzip.level",
        (("compression.gzip.level", 1),),
        -1,
        ("1", "2", "8", "9"),
        ("0", "10", "-2"),
    ),
    Source(
        "compression_lz4_level",
        "compression.lz4.level",
        (("compression.lz4.level", 1),),
        9,
        ("1", "2", "16", "17"),
        ("0", "18"),
    ),
    Source(
        "compression_zstd_level",
        "compression.zstd.level",
        (("compression.zstd.level", 1),),
        3,
        ("-131072", "0", "1", "22"),
        ("-131073", "23"),
    ),
    Source(
        "message_timestamp_type",
        "message.timestamp.type",
        (("log.message.timestamp.type", 1),),
        "CreateTime",
        ("LogAppendTime", "CreateTime", "LogAppendTime", "CreateTime"),
        ("createtime", ""),
    ),
    number(
        "message_timestamp_before_max_ms",
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        -1,
    ),
    number(
        "message_timestamp_after_max_ms",
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        -1,
    ),
    Source(
        "cleanup_policy",
        "cleanup.policy",
        (("log.cleanup.policy", 1),),
        frozenset({"delete"}),
        ("compact", "", "delete,compact", " compact , delete "),
        ("COMPACT", "delete,", "none"),
    ),
    number("min_compaction_lag_ms", "min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", 0, -1),
    number("max_compaction_lag_ms", "max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", LONG_MAX, 0),
    Source(
        "min_cleanable_dirty_ratio",
        "min.cleanable.dirty.ratio",
        (("log.cleaner.min.cleanable.ratio", 1),),
        0.5,
        ("0", "1", "0.25", "1e-3"),
        ("-0.1", "1.1", "NaN", "half"),
    ),
    number("delete_retention_ms", "delete.retention.ms", "log.cleaner.delete.retention.ms", DAY_MS, -1),
    number("min_insync_replicas", "min.insync.replicas", "min.insync.replicas", 1, 0),
    flag("unclean_leader_election_enable", "unclean.leader.election.enable", "unclean.leader.election.enable"),
    flag("remote_storage_enable", "remote.storage.enable"),
    flag("remote_log_copy_disable", "remote.log.copy.disable"),
    flag("remote_log_delete_on_disable", "remote.log.delete.on.disable"),
    number("local_retention_ms", "local.retention.ms", "log.local.retention.ms", -2, -3),
    number("local_retention_bytes", "local.retention.bytes", "log.local.retention.bytes", -2, -3),
    Source("delivery_mode", "delivery.mode", (), "immediate", ("scheduled",) * 4, ("later", "")),
    number("delivery_max_delay_ms", "delivery.max.delay.ms", (), 7 * DAY_MS, -2),
    flag("delivery_schedule_monotonic", "delivery.schedule.monotonic"),
    # Broker only, and fixed until a restart.
    Source("delivery_clock_uncertainty_ms", None, (("odradek.log.delivery.clock.uncertainty.ms", 1),), 250, ("1",) * 4),
    Source("read_buffer_cap_bytes", None, (("odradek.log.read.buffer.cap.bytes", 1),), 4_194_304, ("1",) * 4),
    Source("read_ahead_max_bytes", None, (("odradek.log.read.ahead.max.bytes", 1),), 4_194_304, ("0",) * 4),
    Source("timestamp_scan_window_bytes", None, (("odradek.log.timestamp.scan.window.bytes", 1),), 65_536, ("1",) * 4),
    Source("tail_cache_bytes", None, (("odradek.log.tail.cache.bytes", 1),), 8_388_608, ("0",) * 4),
    Source("writeback_window_bytes", None, (("odradek.log.writeback.window.bytes", 1),), 8_388_608, ("0",) * 4),
    Source("page_cache_budget_bytes", None, (("odradek.log.page.cache.budget.bytes", 1),), None, ("0",) * 4),
    flag("flush_on_append", None, "odradek.log.flush.on.append"),
    flag("validate_on_open", None, "odradek.log.validate.on.open", default=True),
)
WITH_TOPIC_KEY = [source for source in SOURCES if source.topic_key is not None]
INHERITED = [source for source in WITH_TOPIC_KEY if source.broker_keys]
BROKER_ONLY = [source for source in SOURCES if source.topic_key is None]


def by_field(source: Source) -> str:
    return source.field


def parsed(source: Source, text: str) -> Any:
    """Read a sample without the code under test."""
    text = text.strip()
    if isinstance(source.default, bool):
        return text.lower() == "true"
    if isinstance(source.default, frozenset):
        return frozenset(part.strip() for part in text.split(",") if part.strip())
    if isinstance(source.default, float):
        return float(text)
    return int(text) if isinstance(source.default, int | None) else text


def resolver(
    static: dict[str, str] | None = None, broker: dict[str, str] | None = None, default: dict[str, str] | None = None
) -> Resolver:
    return Resolver({name: SourcedValue(text, "test") for name, text in (static or {}).items()}, broker, default)


def value_of(source: Source, values: Resolver, overrides: dict[str, str] | None = None) -> Any:
    return getattr(log_config(values, overrides or {}), source.field)


def test_the_list_has_every_field_and_every_topic_key() -> None:
    assert [source.field for source in SOURCES if source.field not in {f.name for f in fields(LogConfig)}] == []
    assert {source.field for source in SOURCES} == {field.name for field in fields(LogConfig)}
    # No logs read these: throttles are of replicas, and the other one stands in for segment.bytes in tests.
    others = {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "internal.segment.bytes",
    }
    assert {source.topic_key for source in WITH_TOPIC_KEY} == set(TOPIC_KEYS) - others


@pytest.mark.parametrize("source", SOURCES, ids=by_field)
def test_the_default(source: Source) -> None:
    assert value_of(source, resolver()) == source.default == getattr(LogConfig(), source.field)


@pytest.mark.parametrize("source", INHERITED, ids=by_field)
def test_each_layer_covers_those_below_it(source: Source) -> None:
    topic, broker, default, static = source.samples
    name = source.broker_keys[0][0]
    layers: dict[str, dict[str, str]] = {}
    for layer, text in (("static", static), ("default", default), ("broker", broker)):
        layers[layer] = {name: text}
        assert value_of(source, resolver(**layers)) == parsed(source, text), layer
    assert source.topic_key is not None
    assert value_of(source, resolver(**layers), {source.topic_key: topic}) == parsed(source, topic)


@pytest.mark.parametrize("source", WITH_TOPIC_KEY, ids=by_field)
def test_a_topic_alters_it_at_any_time(source: Source) -> None:
    for text in source.samples:
        assert source.topic_key is not None
        stored = {source.topic_key: text}
        if source.field != "remote_storage_enable":
            stored = checked_topic_configs(stored, resolver())
        assert value_of(source, resolver(), stored) == parsed(source, text)


@pytest.mark.parametrize("source", WITH_TOPIC_KEY, ids=by_field)
def test_what_a_topic_may_not_have(source: Source) -> None:
    for text in source.refused:
        with pytest.raises(InvalidConfig):
            checked_topic_configs({source.topic_key or "": text}, resolver())


@pytest.mark.parametrize("source", WITH_TOPIC_KEY, ids=by_field)
def test_a_stored_override_that_cannot_be_read_leaves_what_is_inherited(source: Source, caplog: Any) -> None:
    unreadable = source.refused[0]
    static = {name: source.samples[3] for name, _ in source.broker_keys[:1]}
    expected = parsed(source, source.samples[3]) if static else source.default
    assert value_of(source, resolver(static), {source.topic_key or "": unreadable}) == expected
    assert source.topic_key in caplog.text


@pytest.mark.parametrize("source", INHERITED, ids=by_field)
def test_a_dynamic_broker_value_that_cannot_be_read_leaves_what_is_below(source: Source, caplog: Any) -> None:
    name = source.broker_keys[0][0]
    values = resolver({name: source.samples[3]}, {name: "not a value"}, {name: "nor this"})
    assert value_of(source, values) == parsed(source, source.samples[3])
    assert name in caplog.text


@pytest.mark.parametrize("source", [one for one in INHERITED if len(one.broker_keys) > 1], ids=by_field)
def test_within_a_layer_the_first_synonym_wins_and_each_has_its_unit(source: Source) -> None:
    given: dict[str, str] = {}
    for step, (name, factor) in enumerate(reversed(source.broker_keys), start=5):
        given[name] = str(step)
        for layer in ("static", "default", "broker"):
            assert value_of(source, resolver(**{layer: dict(given)})) == step * factor


@pytest.mark.parametrize("source", INHERITED, ids=by_field)
def test_the_first_broker_key_is_dynamic_at_both_levels_and_the_others_are_not(source: Source) -> None:
    first, *others = (name for name, _ in source.broker_keys)
    for is_default in (False, True):
        for text in source.samples:
            current = resolver({"log.local.retention.ms": "-2"})
            if source.field.startswith("local_retention"):
                current = resolver({"log.retention.ms": "-1"})
            assert first in checked_broker_configs({first: text}, current, is_default=is_default)
        for name in others:
            with pytest.raises(InvalidConfig, match="Cannot update these configs dynamically"):
                checked_broker_configs({name: "5"}, resolver(), is_default=is_default)


@pytest.mark.parametrize("source", BROKER_ONLY, ids=by_field)
def test_fields_without_a_topic_key_come_from_the_file_alone(source: Source) -> None:
    [(name, _)] = source.broker_keys
    for text in source.samples:
        assert value_of(source, resolver({name: text})) == parsed(source, text)
    assert BROKER_KEYS[name].is_read_only
    with pytest.raises(InvalidConfig, match="Cannot update these configs dynamically"):
        checked_broker_configs({name: source.samples[0]}, resolver(), is_default=False)
    with pytest.raises(InvalidConfig, match="Unknown topic config name"):
        checked_topic_configs({name: source.samples[0]}, resolver())


@pytest.mark.parametrize("text", ["-1", "-2", "-9223372036854775808"])
@pytest.mark.parametrize("layer", ["static", "default", "broker"])
def test_any_negative_broker_retention_is_unlimited(layer: str, text: str) -> None:
    assert log_config(resolver(**{layer: {"log.retention.ms": text}}), {}).retention_ms == -1


def test_a_segment_size_for_tests_takes_the_place_of_the_public_one() -> None:
    overrides = checked_topic_configs({"segment.bytes": "2000000", "internal.segment.bytes": "14"}, resolver())
    assert log_config(resolver(), overrides).segment_bytes == 14


def test_equal_settings_are_one_value() -> None:
    one, other = (log_config(resolver({"log.roll.hours": "1"}), {"flush.ms": "5"}) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert log_config(resolver(), {"segment.ms": "3600000", "flush.ms": "5"}) == one
