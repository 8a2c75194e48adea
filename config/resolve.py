"""Precedence: which value of a key is in force, and the chain of all values behind it.

Highest first: topic or group override, dynamic value of this broker, dynamic cluster-wide default, static
configuration, built-in default. A topic key looks up its broker synonyms on each of the lower layers; within one layer
the first synonym that is set wins, so log.retention.ms goes before minutes, and minutes before hours. A broker key with
synonyms does likewise and itself goes first.

A stored dynamic value that turns out unreadable never stops the broker: the next lower layer stands in, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Any, NamedTuple

from config.errors import InvalidConfig
from config.key import ConfigKey, Synonym, format_value
from config.keys import BROKER_KEYS, LISTENER_PREFIX, SAME_SETTING, TOPIC_KEYS, find_broker_key
from config.sources import SourcedValue

_logger = logging.getLogger(__name__)


class ConfigSource(IntEnum):
    """Layer of a value, numbered as DescribeConfigs reports it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ChainLink(NamedTuple):
    """One layer's value of a key or of one of its synonyms, as it was written there."""

    name: str
    text: str | None
    source: ConfigSource


class Effective(NamedTuple):
    """The value in force, its spelling, its layer, and every value behind it, most specific first."""

    name: str
    value: Any
    text: str | None
    source: ConfigSource
    synonyms: tuple[ChainLink, ...]


class Resolver:
    """Answer for the value of any key from a static configuration and the dynamic layers above it."""

    def __init__(
        self,
        static: Mapping[str, SourcedValue],
        dynamic_broker: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
    ) -> None:
        self.static = static
        # The dynamic layers stand first, that of the broker above the cluster-wide one.
        self._layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
            (ConfigSource.DYNAMIC_BROKER, dynamic_broker or {}),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, dynamic_default or {}),
            (ConfigSource.STATIC_BROKER, {name: value.text for name, value in static.items()}),
        )
        self._cache: dict[tuple[str, str], Any] = {}
        """Values already parsed, by scope and name; filled as they are asked for."""

    def with_layers(self, layers: Mapping[ConfigSource, Mapping[str, str]]) -> Resolver:
        """Return a resolver with these dynamic layers in the place of its own; those not named stay."""
        of_broker, of_default = (layers.get(source, own) for source, own in self._layers[:2])
        return Resolver(self.static, of_broker, of_default)

    def get(self, name: str) -> Any:
        """Return the parsed broker-level value in force; a key of topic scope only answers its inherited value."""
        row = BROKER_KEYS.get(name) or TOPIC_KEYS[name]
        return self._inherited(row) if row.scope == "topic" else self._broker_value(row)

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Any:
        """Return the parsed value of a topic key under a topic's overrides."""
        row = TOPIC_KEYS[name]
        if name in overrides:
            try:
                return row.parse(overrides[name])
            except InvalidConfig as error:
                _logger.warning("stored topic configuration is ignored: %s", error)
        return self._inherited(row)

    def is_set(self, name: str) -> bool:
        """Tell whether any layer gives the broker key a value."""
        return any(name in layer for _, layer in self._layers)

    def layer_names(self, source: ConfigSource) -> tuple[str, ...]:
        """Return the names that a layer sets, known to the table or not."""
        return next((tuple(layer) for layer_source, layer in self._layers if layer_source is source), ())

    def values_of_listeners(self, name: str) -> dict[str, Any]:
        """Return the values that a key has for single listeners, by the listener's name in lower case."""
        row = BROKER_KEYS[name]
        found: dict[str, Any] = {}
        for _, layer in reversed(self._layers):
            for written, text in layer.items():
                listener, dot, base = written.removeprefix(LISTENER_PREFIX).partition(".")
                if not (written.startswith(LISTENER_PREFIX) and dot and base == name):
                    continue
                try:
                    found[listener.lower()] = row.parse(text)
                except InvalidConfig as error:
                    _logger.warning("configuration of a listener is ignored: %s", error)
        return found

    def effective(self, name: str, topic_overrides: Mapping[str, str] | None = None) -> Effective:
        """Return the value in force with its chain: of a topic key when overrides are given, else of a broker key."""
        if topic_overrides is None:
            return self._effective_broker(name)
        return self.effective_override(TOPIC_KEYS[name], topic_overrides, ConfigSource.DYNAMIC_TOPIC)

    def effective_override(self, row: ConfigKey, overrides: Mapping[str, str], source: ConfigSource) -> Effective:
        """Return the value in force of a topic or group key under a resource's own overrides."""
        chain = tuple(self._chain_from_first(tuple(synonym.name for synonym in row.synonyms)))
        value = self._inherited(row)
        found = chain[0].source if chain else ConfigSource.DEFAULT
        if row.name in overrides:
            try:
                value = row.parse(overrides[row.name])
            except InvalidConfig as error:
                _logger.warning("stored configuration is ignored: %s", error)
            else:
                found = source
                chain = (ChainLink(row.name, overrides[row.name], source), *chain)
        return Effective(row.name, value, format_value(value), found, chain)

    def _effective_broker(self, name: str) -> Effective:
        row = find_broker_key(name)
        if row is None:
            # Not in the table: kept as given, since somebody put it there on purpose.
            chain = tuple(self._chain((name,)))
            return Effective(name, chain[0].text, chain[0].text, chain[0].source, chain)
        names = (name, row.name) if row.name != name else SAME_SETTING.get(name, (name,))
        links = [*self._chain(names)]
        if not row.synonyms:
            # A unit that wins over this key is another key's business: describing hours starts at hours.
            links = [*dropwhile(lambda link: link.name != name, links)]
        source = links[0].source if links else ConfigSource.DEFAULT
        value = self._broker_value(row) if name == row.name else row.parse(links[0].text or "")
        return Effective(name, value, format_value(value), source, tuple(links))

    def _chain_from_first(self, names: tuple[str, ...]) -> Iterator[ChainLink]:
        """Yield the chain from the first name on: as in Kafka, hours alone are no synonym of milliseconds."""
        return dropwhile(lambda link: link.name != names[0], self._chain(names))

    def _chain(self, names: tuple[str, ...]) -> Iterator[ChainLink]:
        """Yield every value that the broker layers hold for these names, the layer with the most weight first."""
        for source, layer in self._layers:
            for name in names:
                if name in layer:
                    yield ChainLink(name, layer[name], source)
        for name in names:
            row = BROKER_KEYS.get(name)
            if row is not None and row.default_text is not None:
                yield ChainLink(name, row.default_text, ConfigSource.DEFAULT)

    def _broker_value(self, row: ConfigKey) -> Any:
        cached = ("broker", row.name)
        if cached not in self._cache:
            found, value = self._set_value((Synonym(row.name), *row.synonyms))
            self._cache[cached] = value if found else row.default
        return self._cache[cached]

    def _inherited(self, row: ConfigKey) -> Any:
        """Return what a topic or group key is worth without an override."""
        cached = (row.scope, row.name)
        if cached not in self._cache:
            found, value = self._set_value(row.synonyms)
            self._cache[cached] = value if found else _default(row)
        return self._cache[cached]

    def _set_value(self, synonyms: tuple[Synonym, ...]) -> tuple[bool, Any]:
        """Return the first readable value that a layer sets for these names, converted."""
        for source, layer in self._layers:
            for synonym in synonyms:
                if synonym.name not in layer:
                    continue
                try:
                    return True, synonym.convert(BROKER_KEYS[synonym.name].parse(layer[synonym.name]))
                except InvalidConfig as error:
                    if source is ConfigSource.STATIC_BROKER:
                        raise
                    _logger.warning("stored broker configuration is ignored: %s", error)
        return False, None


def _default(row: ConfigKey) -> Any:
    for synonym in row.synonyms:
        default = BROKER_KEYS[synonym.name].default
        if default is not None:
            return synonym.convert(default)
    return row.default
