"""Overrides of topics: what is refused and with which words, what is stored."""

from __future__ import annotations

import pytest

from config.errors import InvalidConfig
from config.load import load
from config.overrides import canonical_topic_configs, checked_topic_configs
from config.resolve import Resolver
from config.sources import SourcedValue

EMPTY = Resolver({})
TIERED = Resolver({"remote.log.storage.system.enable": SourcedValue("true", "test")})
TIER = "remote.storage.enable"
COPY_OFF = "remote.log.copy.disable"
DELETE_ON_DISABLE = "remote.log.delete.on.disable"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"no.such.key": "1"}, "Unknown topic config name: no.such.key"),
        ({"log.retention.ms": "1"}, "Unknown topic config name: log.retention.ms"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"retention.ms": None, "no.such": "1", "x": None},
            "Null value not supported for topic configs: retention.ms,x",
        ),
        (
            {"cleanup.policy": "foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_refused_overrides(overrides, message):
    with pytest.raises(InvalidConfig) as refusal:
        checked_topic_configs(overrides, EMPTY)
    assert refusal.value.message == message


def test_value_longer_than_a_record_holds():
    replicas = ",".join(["0:1"] * 8192)
    checked_topic_configs({"leader.replication.throttled.replicas": replicas}, EMPTY)
    with pytest.raises(InvalidConfig, match="32767 bytes"):
        checked_topic_configs({"leader.replication.throttled.replicas": replicas + ",0:1"}, EMPTY)


def test_compaction_lags_are_compared_with_what_is_inherited():
    resolver = load(None, {}, ["log.cleaner.max.compaction.lag.ms=10"]).resolver
    checked_topic_configs({"min.compaction.lag.ms": "11"}, EMPTY)
    with pytest.raises(InvalidConfig, match="conflict topic config"):
        checked_topic_configs({"min.compaction.lag.ms": "11"}, resolver)


def test_accepted_overrides_are_stored_trimmed():
    given = {"preallocate": " TRUE ", "retention.ms": " 5", "cleanup.policy": "compact"}
    assert canonical_topic_configs(given) == {"preallocate": "true", "retention.ms": "5", "cleanup.policy": "compact"}
    assert checked_topic_configs({}, EMPTY) == {}


def refusal_of(overrides, resolver=TIERED, existing=None):
    with pytest.raises(InvalidConfig) as refusal:
        checked_topic_configs(overrides, resolver, existing)
    return refusal.value.message


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", ""),
        (" ", ""),
        ("delete", "delete"),
        (" compact , delete ", "compact,delete"),
        ("delete,compact", "delete,compact"),
        ("compact,compact", "compact"),
    ],
)
def test_policies_that_a_topic_may_have(text, stored):
    assert checked_topic_configs({"cleanup.policy": text}, EMPTY) == {"cleanup.policy": stored}


@pytest.mark.parametrize("text", ["COMPACT", "none", "delete,foo", ",", "delete,", "compact,,delete"])
def test_policies_that_no_topic_may_have(text):
    with pytest.raises(InvalidConfig):
        checked_topic_configs({"cleanup.policy": text}, EMPTY)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"cleanup.policy": ""},
        {"retention.ms": "1000", "local.retention.ms": "1000"},
        {"retention.ms": "-1", "local.retention.ms": "-1"},
        {"retention.ms": "-1", "local.retention.ms": "5"},
        {"retention.bytes": "-5", "local.retention.bytes": "-1"},
        {"local.retention.bytes": "2000"},
        {COPY_OFF: "true"},
        {COPY_OFF: "true", "retention.ms": "6", "local.retention.ms": "6"},
    ],
)
def test_tiered_topics_that_a_broker_with_a_tier_accepts(overrides):
    assert checked_topic_configs({TIER: "true", **overrides}, TIERED)[TIER] == "true"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"cleanup.policy": "compact"}, "Remote log storage only supports topics with cleanup.policy=delete"),
        ({"cleanup.policy": "compact,delete"}, "Remote log storage only supports topics with cleanup.policy=delete"),
        (
            {"retention.ms": "1000", "local.retention.ms": "2000"},
            "Invalid value 2000 for configuration local.retention.ms: "
            "Value must not be more than retention.ms property value: 1000",
        ),
        (
            {"retention.ms": "1000", "local.retention.ms": "-1"},
            "Invalid value -1 for configuration local.retention.ms: "
            "Value must not be -1 as retention.ms value is set as 1000.",
        ),
        ({"retention.ms": "0", "local.retention.ms": "1"}, "Value must not be more than retention.ms"),
        ({"local.retention.ms": "604800001"}, "Value must not be more than retention.ms property value: 604800000"),
        ({"retention.bytes": "10", "local.retention.bytes": "11"}, "Value must not be more than retention.bytes"),
        ({"retention.bytes": "10", "local.retention.bytes": "-1"}, "Value must not be -1 as retention.bytes"),
        (
            {COPY_OFF: "true", "retention.ms": "6", "local.retention.ms": "5"},
            "the `local.retention.ms` and `retention.ms` must be set to the identical value",
        ),
        (
            {COPY_OFF: "true", "retention.bytes": "6", "local.retention.bytes": "5", "local.retention.ms": "5"},
            "the `local.retention.bytes` and `retention.bytes` must be set to the identical value",
        ),
        ({"local.retention.ms": "-3"}, "Value must be at least -2"),
    ],
)
def test_tiered_topics_that_are_refused(overrides, words):
    assert words in refusal_of({TIER: "true", **overrides})


def test_without_a_tier_its_keys_are_checked_alone_and_otherwise_ignored():
    assert "disabled in the broker" in refusal_of({TIER: "true"}, EMPTY)
    beyond = {"local.retention.ms": "99999999999999", COPY_OFF: "true", "cleanup.policy": "compact"}
    assert checked_topic_configs(beyond, EMPTY) == beyond
    assert "at least -2" in refusal_of({"local.retention.bytes": "-3"}, EMPTY)


def test_a_tier_is_left_only_together_with_its_data():
    before = {TIER: "true"}
    for overrides in ({}, {TIER: "false"}):
        assert "without deleting remote data" in refusal_of(overrides, TIERED, before)
        assert "without deleting remote data" in refusal_of(overrides, EMPTY, before)
        leaving = {**overrides, DELETE_ON_DISABLE: "true"}
        assert checked_topic_configs(leaving, TIERED, before) == leaving
    assert checked_topic_configs(before, TIERED, before) == before
