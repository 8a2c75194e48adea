"""What DescribeConfigs says about each key of a topic, a group, a client metrics subscription, this broker, or the
cluster-wide defaults.

Source: ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from config.key import ConfigKey
from config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, find_broker_key
from config.resolve import ChainLink, ConfigSource, Effective, Resolver

TYPE_UNKNOWN = 0


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


def describe_topic(
    resolver: Resolver, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a topic's keys: all of them when no names are given, else those that exist."""
    return _describe_overridable(resolver, TOPIC_KEYS, overrides, ConfigSource.DYNAMIC_TOPIC, names)


def describe_group(
    resolver: Resolver, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a group's keys; a group that has no overrides, or does not exist, shows what it would inherit.

    A key that no key of the broker stands behind has its own default at the end of its chain.
    """
    return [
        entry
        if GROUP_KEYS[entry.name].synonyms
        else entry._replace(synonyms=(*entry.synonyms, _own_default(GROUP_KEYS[entry.name])))
        for entry in _describe_overridable(resolver, GROUP_KEYS, overrides, ConfigSource.GROUP, names)
    ]


def _own_default(row: ConfigKey) -> ChainLink:
    return ChainLink(row.name, row.default_text, ConfigSource.DEFAULT)


def describe_client_metrics(
    resolver: Resolver, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a subscription's keys; one that does not exist shows the defaults."""
    return _describe_overridable(resolver, CLIENT_METRICS_KEYS, overrides, ConfigSource.CLIENT_METRICS, names)


def describe_broker(resolver: Resolver, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Describe this broker's keys, those given on some layer but not in the table included."""
    candidates = dict.fromkeys(name for name, row in BROKER_KEYS.items() if not row.internal)
    for source in (ConfigSource.STATIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.DYNAMIC_BROKER):
        candidates |= dict.fromkeys(resolver.layer_names(source))
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
        type_code=TYPE_UNKNOWN if row is None else int(row.type),
        documentation=None if row is None else row.doc,
    )
