"""Precedence over layers and synonyms, and the chain that DescribeConfigs lists."""

from __future__ import annotations

import pytest

from config.errors import InvalidConfig
from config.resolve import ConfigSource, Resolver
from config.sources import SourcedValue
from config.views import log_config


def resolver(static=None, dynamic_broker=None, dynamic_default=None):
    given = {name: SourcedValue(text, "test") for name, text in (static or {}).items()}
    return Resolver(given, dynamic_broker, dynamic_default)


def chain(effective):
    return [(link.name, link.text, int(link.source)) for link in effective.synonyms]


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "168", "log.retention.minutes": "10"}, 600_000),
        ({"log.retention.hours": "168", "log.retention.minutes": "10", "log.retention.ms": "60000"}, 60_000),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_units(static, retention_ms):
    assert resolver(static).effective("retention.ms", {}).text == str(retention_ms)
    assert log_config(resolver(static), {}).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("static", "segment_ms"),
    [({"log.roll.hours": "1"}, 3_600_000), ({"log.roll.hours": "1", "log.roll.ms": "5"}, 5), ({}, 604_800_000)],
)
def test_roll_units(static, segment_ms):
    assert log_config(resolver(static), {}).segment_ms == segment_ms


def test_flush_interval_falls_back_to_the_schedulers_period():
    assert log_config(resolver({"log.flush.scheduler.interval.ms": "9"}), {}).flush_ms == 9
    both = {"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"}
    assert log_config(resolver(both), {}).flush_ms == 8


def test_topic_override_wins_over_everything():
    values = resolver({"log.retention.ms": "1"}, {"log.retention.ms": "2"}, {"log.retention.ms": "3"})
    assert values.effective("retention.ms", {"retention.ms": "4"}).value == 4
    assert values.effective("retention.ms", {}).value == 2


def test_layer_weighs_more_than_synonym_order():
    """Hours in a higher layer win over milliseconds in a lower one."""
    values = resolver({"log.retention.ms": "1"}, None, {"log.retention.hours": "1"})
    assert values.effective("retention.ms", {}).value == 3_600_000


def test_chain_lists_every_layer_and_synonym():
    values = resolver({"log.retention.hours": "2", "log.retention.minutes": "30"}, {"log.retention.ms": "99"})
    effective = values.effective("retention.ms", {"retention.ms": "5"})
    assert effective.source is ConfigSource.DYNAMIC_TOPIC
    assert chain(effective) == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "99", 2),
        ("log.retention.minutes", "30", 4),
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_source_is_that_of_the_first_link():
    assert resolver({"log.retention.ms": "1"}).effective("retention.ms", {}).source is ConfigSource.STATIC_BROKER
    # As Kafka has it: without a value for milliseconds coarser units are no synonyms, though their value is in force.
    coarse = resolver({"log.retention.hours": "1"}).effective("retention.ms", {})
    assert (coarse.value, coarse.source, coarse.synonyms) == (3_600_000, ConfigSource.DEFAULT, ())
    assert resolver().effective("retention.ms", {}).source is ConfigSource.DEFAULT
    assert resolver().effective("remote.storage.enable", {}).source is ConfigSource.DEFAULT


def test_override_equal_to_the_default_is_still_an_override():
    effective = resolver().effective("cleanup.policy", {"cleanup.policy": "delete"})
    assert effective.source is ConfigSource.DYNAMIC_TOPIC


def test_key_of_both_scopes_is_told_apart():
    values = resolver({"compression.type": "zstd"})
    assert values.effective("compression.type").text == "zstd"
    assert values.effective("compression.type", {"compression.type": "gzip"}).text == "gzip"
    assert values.get("compression.type") == "zstd"


def test_describing_a_unit_starts_at_that_unit():
    values = resolver({"log.retention.ms": "1", "log.retention.hours": "2"})
    assert chain(values.effective("log.retention.hours")) == [
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert chain(values.effective("log.retention.ms"))[0] == ("log.retention.ms", "1", 4)
    assert values.effective("log.retention.minutes").text is None


def test_listener_prefixed_key_falls_back_to_the_plain_one():
    values = resolver({"ssl.client.auth": "required", "listener.name.a.ssl.client.auth": "requested"})
    effective = values.effective("listener.name.a.ssl.client.auth")
    assert (effective.text, effective.source) == ("requested", ConfigSource.STATIC_BROKER)
    assert [link.name for link in effective.synonyms][:2] == ["listener.name.a.ssl.client.auth", "ssl.client.auth"]


def test_unreadable_stored_value_yields_to_the_lower_layer(caplog):
    values = resolver({"log.retention.ms": "7"}, {"log.retention.ms": "abc"})
    assert values.effective("retention.ms", {"retention.ms": "xyz"}).value == 7
    assert log_config(values, {"retention.ms": "xyz"}).retention_ms == 7
    assert "xyz" in caplog.text and "abc" in caplog.text


def test_unreadable_static_value_is_refused():
    with pytest.raises(InvalidConfig, match=r"num\.partitions"):
        resolver({"num.partitions": "many"}).get("num.partitions")


def test_other_dynamic_layers_keep_the_static_layer():
    values = resolver({"num.partitions": "3", "log.retention.ms": "1"}).with_layers(
        {ConfigSource.DYNAMIC_BROKER: {"log.retention.ms": "2"}}
    )
    assert (values.get("num.partitions"), values.get("log.retention.ms")) == (3, 2)
    assert values.is_set("num.partitions") and not values.is_set("log.dir")
