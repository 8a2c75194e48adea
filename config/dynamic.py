"""Topic and group overrides: are they acceptable, and what DescribeConfigs says about each key.

Order of the checks: null values, unknown names, length, each value alone, then values that exclude each other under
what the topic inherits. Messages are Kafka's; the caller answers INVALID_CONFIG (40).

Source: LogConfig.validate, ControllerConfigurationValidator, ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from config.errors import InvalidConfig
from config.key import ConfigKey
from config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, find_broker_key
from config.resolve import ChainLink, ConfigSource, Effective, Resolver

VALUE_MAX_BYTES = 32_767
"""Longest value that a configuration record holds."""

_TYPE_UNKNOWN = 0


class ConfigEntry(NamedTuple):
    """One line of a DescribeConfigs answer."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: tuple[ChainLink, ...]
    type_code: int
    documentation: str | None


def validate_topic_configs(overrides: Mapping[str, str | None], resolver: Resolver | None = None) -> None:
    """Raise InvalidConfig unless a topic may have these overrides above what the resolver supplies."""
    values = canonical_topic_configs(overrides)
    resolver = resolver or Resolver({})
    shortest = resolver.topic_value("min.compaction.lag.ms", values)
    longest = resolver.topic_value("max.compaction.lag.ms", values)
    if shortest > longest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if resolver.topic_value("remote.storage.enable", values):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def canonical_topic_configs(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Check each override alone and return all of them as they are to be stored."""
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise InvalidConfig(f"Unknown topic config name: {name}")
    result = {}
    for name, text in overrides.items():
        if text is None:
            continue
        if len(text.encode()) > VALUE_MAX_BYTES:
            raise InvalidConfig(
                f"The configuration value of {name} cannot be added because it exceeds the maximum value size of "
                f"{VALUE_MAX_BYTES} bytes."
            )
        row = TOPIC_KEYS[name]
        row.parse(text)
        result[name] = row.canonical(text)
    return result


def describe_topic(
    resolver: Resolver, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a topic's keys: all of them when no names are given, else those that exist."""
    return _describe_overridable(resolver, TOPIC_KEYS, overrides, ConfigSource.DYNAMIC_TOPIC, names)


def describe_group(
    resolver: Resolver, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a group's keys; a group that has no overrides, or does not exist, shows what it would inherit."""
    return _describe_overridable(resolver, GROUP_KEYS, overrides, ConfigSource.GROUP, names)


def describe_broker(resolver: Resolver, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Describe this broker's keys, those given in the static configuration but not in the table included."""
    given = resolver.layer_names(ConfigSource.STATIC_BROKER)
    candidates = [name for name, row in BROKER_KEYS.items() if not row.internal]
    candidates += [name for name in given if name not in BROKER_KEYS or BROKER_KEYS[name].internal]
    return [
        _entry(resolver.effective(name), find_broker_key(name), is_broker=True) for name in _wanted(candidates, names)
    ]


def describe_broker_defaults(resolver: Resolver, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Describe the cluster-wide dynamic defaults: only what is set on that layer."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries = []
    for name in _wanted(resolver.layer_names(source), names):
        chain = tuple(link for link in resolver.effective(name).synonyms if link.source is source)
        text = next((link.text for link in chain if link.name == name), None)
        entries.append(_entry(Effective(name, text, text, source, chain), find_broker_key(name), is_broker=True))
    return entries


def _describe_overridable(
    resolver: Resolver,
    keys: Mapping[str, ConfigKey],
    overrides: Mapping[str, str],
    source: ConfigSource,
    names: Collection[str] | None,
) -> list[ConfigEntry]:
    candidates = [name for name, row in keys.items() if not row.internal or name in overrides]
    return [
        _entry(resolver.effective_override(keys[name], overrides, source), keys[name], is_broker=False)
        for name in _wanted(candidates, names)
    ]


def _wanted(candidates: Iterable[str], names: Collection[str] | None) -> list[str]:
    """Keep what was asked for; no names or an empty list ask for everything."""
    return [name for name in candidates if not names or name in names]


def _entry(effective: Effective, row: ConfigKey | None, is_broker: bool) -> ConfigEntry:
    is_sensitive = row is None or row.is_sensitive
    synonyms = effective.synonyms
    if is_sensitive:
        synonyms = tuple(link._replace(text=None) for link in synonyms)
    return ConfigEntry(
        name=effective.name,
        value=None if is_sensitive else effective.text,
        read_only=is_broker and (row is None or row.is_read_only),
        source=effective.source,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
        type_code=_TYPE_UNKNOWN if row is None else int(row.type),
        documentation=None if row is None else row.doc,
    )
