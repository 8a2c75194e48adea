"""Configs of groups and of client metrics subscriptions: values alone and together."""

from __future__ import annotations

import pytest

from config.errors import InvalidConfig
from config.load import load
from config.resolve import Resolver
from config.resource_changes import (
    UnknownSetting,
    checked_client_metrics,
    checked_group_configs,
    client_patterns,
)
from config.sources import SourcedValue

EMPTY = Resolver({})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"no.such.key": "1"}, "Unknown group config name: no.such.key"),
        ({"consumer.session.timeout.ms": "x"}, "Not a number of type INT"),
        ({"consumer.session.timeout.ms": "0"}, "Value must be at least 1"),
        (
            {"consumer.session.timeout.ms": "44999"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        ({"consumer.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"share.record.lock.duration.ms": "14999"}, "group.share.min.record.lock.duration.ms"),
        ({"consumer.assignment.interval.ms": "15001"}, "group.consumer.max.assignment.interval.ms"),
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit"),
        ({"share.partition.max.record.locks": "4001"}, "group.share.max.partition.max.record.locks"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
    ],
)
def test_refused_values_of_groups(values: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        checked_group_configs(values, EMPTY)
    assert message in str(refused.value)


def test_a_group_keeps_its_values_trimmed() -> None:
    assert checked_group_configs({"consumer.session.timeout.ms": " 50000 "}, EMPTY) == {
        "consumer.session.timeout.ms": "50000"
    }
    assert checked_group_configs({}, EMPTY) == {}


def test_an_assignment_interval_outside_the_bounds_is_refused_only_where_it_is_set() -> None:
    resolver = Resolver({"group.streams.min.assignment.interval.ms": SourcedValue("2000", "test")})
    assert checked_group_configs({"streams.session.timeout.ms": "50000"}, resolver)
    with pytest.raises(InvalidConfig, match=r"group\.streams\.min\.assignment\.interval\.ms"):
        checked_group_configs({"streams.assignment.interval.ms": "1000"}, resolver)


def test_a_session_outlasts_a_heartbeat() -> None:
    resolver = load(
        None,
        {},
        [
            "group.consumer.min.session.timeout.ms=1000",
            "group.consumer.min.heartbeat.interval.ms=1000",
            "group.consumer.heartbeat.interval.ms=6000",
        ],
    ).resolver
    with pytest.raises(InvalidConfig, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        checked_group_configs({"consumer.session.timeout.ms": "6000"}, resolver)
    both = {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "5999"}
    assert checked_group_configs(both, resolver) == both


@pytest.mark.parametrize(
    ("values", "message", "is_unknown"),
    [
        ({"no.such.key": "1"}, "Unknown client metrics configuration: no.such.key", True),
        ({"interval.ms": "99"}, "Invalid value 99 for interval.ms", True),
        ({"interval.ms": "3600001"}, "interval must be between 100 and 3600000 (1 hour)", True),
        ({"interval.ms": "soon"}, "Not a number of type INT", False),
        ({"match": "color=red"}, "Illegal client matching pattern: color=red", False),
        ({"match": "client_id"}, "Illegal client matching pattern: client_id", False),
        ({"match": "client_id="}, "Illegal client matching pattern: client_id=", False),
        ({"match": "client_id=a=b"}, "Illegal client matching pattern: client_id=a=b", False),
        ({"match": "client_id=("}, "Illegal client matching pattern: client_id=(", False),
    ],
)
def test_refused_values_of_subscriptions(values: dict[str, str], message: str, is_unknown: bool) -> None:
    with pytest.raises(InvalidConfig) as refused:
        checked_client_metrics(values)
    assert message in str(refused.value)
    assert isinstance(refused.value, UnknownSetting) is is_unknown


def test_a_subscription_keeps_its_values() -> None:
    values = {"interval.ms": "100", "metrics": "a., b.", "match": "client_id = x.*, client_source_port=1"}
    assert checked_client_metrics(values)["metrics"] == "a.,b."
    patterns = client_patterns(values["match"])
    assert {name: pattern.pattern for name, pattern in patterns.items()} == {
        "client_id": "x.*",
        "client_source_port": "1",
    }
    assert client_patterns("") == {}


def test_patterns_for_clients_are_of_a_kind_that_always_comes_to_an_end() -> None:
    [pattern] = client_patterns("client_id=(a|aa)+b").values()
    assert pattern.fullmatch("a" * 60) is None and pattern.fullmatch("aab") is not None
    for refused in ("client_id=(?=a)a", f"client_id={'(a?){200}' * 20}"):
        with pytest.raises(InvalidConfig, match="Illegal client matching pattern"):
            client_patterns(refused)
