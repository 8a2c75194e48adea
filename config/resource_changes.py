"""Configs of groups and of client metrics subscriptions: which values they may have, alone and together.

Messages are Kafka's. A group's values are judged with what it inherits, so a change of one may be refused for another.

Source: GroupConfig.validate, ClientMetricsConfigs.validate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from config import regex
from config.errors import InvalidConfig
from config.key import parse_value
from config.keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from config.overrides import check_length
from config.resolve import ConfigSource, Resolver

MATCH_NAMES = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What of a client a pattern may be for."""

PATTERN_MEMORY_BYTES = 64 * 1024
"""Of one pattern: each client that comes is held against it on the loop."""

MIN_INTERVAL_MS, MAX_INTERVAL_MS = 100, 3_600_000


class _Bounds(NamedTuple):
    """Broker keys between whose values a group's value must lie."""

    name: str
    lowest: str | None
    highest: str | None
    when_set: bool = False
    """Whether a value that is inherited is left alone."""


def _bounds(kind: str, what: str, *, when_set: bool = False) -> _Bounds:
    return _Bounds(f"{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}", when_set)


_BOUNDS = (
    _bounds("consumer", "heartbeat.interval.ms"),
    _bounds("consumer", "session.timeout.ms"),
    _bounds("consumer", "assignment.interval.ms", when_set=True),
    _bounds("share", "heartbeat.interval.ms"),
    _bounds("share", "session.timeout.ms"),
    _bounds("share", "record.lock.duration.ms"),
    _bounds("share", "delivery.count.limit"),
    _bounds("share", "partition.max.record.locks"),
    _bounds("share", "assignment.interval.ms", when_set=True),
    _bounds("streams", "heartbeat.interval.ms"),
    _bounds("streams", "session.timeout.ms"),
    _Bounds("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
    _bounds("streams", "assignment.interval.ms", when_set=True),
)
"""In the order of Kafka's checks."""


class UnknownSetting(InvalidConfig):
    """A key that no subscription has, or an interval outside its bounds: Kafka calls the request invalid."""


def checked_group_configs(values: Mapping[str, str], resolver: Resolver) -> dict[str, str]:
    """Return a group's values as they are to be stored. Raises InvalidConfig unless a group may have them."""
    for name in values:
        if name not in GROUP_KEYS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    result = {}
    for name, text in values.items():
        check_length(name, text)
        GROUP_KEYS[name].parse(text)
        result[name] = GROUP_KEYS[name].canonical(text)

    def effective(name: str) -> int:
        value: int = resolver.effective_override(GROUP_KEYS[name], result, ConfigSource.GROUP).value
        return value

    for name, lowest, highest, when_set in _BOUNDS:
        if when_set and name not in result:
            continue
        if lowest is not None and effective(name) < resolver.get(lowest):
            raise InvalidConfig(f"{name} must be greater than or equal to {lowest}")
        if highest is not None and effective(name) > resolver.get(highest):
            raise InvalidConfig(f"{name} must be less than or equal to {highest}")
    for kind in ("consumer", "share", "streams"):
        timeout, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if effective(timeout) <= effective(interval):
            raise InvalidConfig(f"{timeout} must be greater than {interval}")
    return result


def checked_client_metrics(values: Mapping[str, str]) -> dict[str, str]:
    """Return a subscription's values as they are to be stored.

    Raises InvalidConfig unless a subscription may have them; UnknownSetting is one of them.
    """
    for name in values:
        if name not in CLIENT_METRICS_KEYS:
            raise UnknownSetting(f"Unknown client metrics configuration: {name}")
    result = {}
    for name, text in values.items():
        check_length(name, text)
        row = CLIENT_METRICS_KEYS[name]
        value = row.parse(text)
        if name == "interval.ms" and not MIN_INTERVAL_MS <= value <= MAX_INTERVAL_MS:
            raise UnknownSetting(
                f"Invalid value {value} for {name}, interval must be between {MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} "
                "(1 hour)"
            )
        if name == "match":
            client_patterns(text)
        result[name] = row.canonical(text)
    return result


def client_patterns(text: str) -> dict[str, Any]:
    """Return the patterns of a `match`, by what of a client they are for. Raises InvalidConfig."""
    patterns = {}
    for element in parse_value("match", CLIENT_METRICS_KEYS["match"].type, text):
        name, *rest = (part.strip() for part in element.split("="))
        try:
            if len(rest) != 1 or not rest[0] or name not in MATCH_NAMES:
                raise ValueError(element)
            patterns[name] = regex.compiled(rest[0], PATTERN_MEMORY_BYTES)
        except (ValueError, regex.InvalidExpression):
            raise InvalidConfig(f"Illegal client matching pattern: {element}") from None
    return patterns
