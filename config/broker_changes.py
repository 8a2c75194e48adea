"""Dynamic configuration of brokers: which values may be set while they run, and which stored ones still count.

Two layers: the values of one broker and the cluster-wide defaults below them. A key's update mode says on which it may
stand; keys without a row are kept for whoever put them there, as in Kafka. The order of the checks is Kafka's: what is
not dynamic, what needs a listener's prefix, each value alone, what needs a broker's id, then all values together.

Source: DynamicBrokerConfig, DynamicThreadPool, DynamicLogConfig, DynamicListenerConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from config.consistency import check_cordoned, check_together
from config.errors import InvalidConfig
from config.key import ConfigKey
from config.keys import BROKER_KEYS, LISTENER_PREFIX, find_broker_key
from config.overrides import check_length, check_local_retention
from config.resolve import ConfigSource, Resolver

_logger = logging.getLogger(__name__)

_ONLY_PER_LISTENER = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Dynamic keys that only a listener's prefix makes dynamic."""

_CLUSTER_WIDE_OF_LISTENERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Keys that, written for one listener, may still be a default of all brokers."""

_THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""Pools that may at most double and at least keep half their threads by one change."""

_FIXED_WHILE_RUNNING = ("listeners", "listener.security.protocol.map")
"""Keys whose mode is dynamic, but which no KRaft broker changes while it runs."""


def checked_broker_configs(values: Mapping[str, str], current: Resolver, *, is_default: bool) -> dict[str, str]:
    """Return a layer's values as they are to be stored, in the place of those that `current` has for it.

    Raises InvalidConfig unless a broker may run with them.
    """
    if names := [name for name in values if (row := BROKER_KEYS.get(name)) is not None and row.is_read_only]:
        raise InvalidConfig(f"Cannot update these configs dynamically: {_set_of(names)}")
    if names := [name for name in values if name in _ONLY_PER_LISTENER]:
        raise InvalidConfig(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"{_set_of(names)}"
        )
    result = {name: _canonical(name, text) for name, text in values.items()}
    if is_default and (names := [name for name in values if _needs_broker_id(name)]):
        raise InvalidConfig(
            "Cannot update these configs at default cluster level, broker id must be specified: " + _set_of(names)
        )
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER if is_default else ConfigSource.DYNAMIC_BROKER
    _check_change(current, current.with_layers({source: result}))
    return result


def usable_layer(stored: Mapping[str, str], *, is_default: bool) -> dict[str, str]:
    """Return those of a layer's stored values that count; a warning tells of each that does not."""
    result = {}
    for name, text in stored.items():
        row = BROKER_KEYS.get(name)
        try:
            if row is not None and (row.is_read_only or name in _ONLY_PER_LISTENER):
                raise InvalidConfig(f"{name} cannot be set while the broker runs")
            if is_default and _needs_broker_id(name):
                raise InvalidConfig(f"{name} needs a broker id")
            result[name] = _canonical(name, text)
        except InvalidConfig as invalid:
            _logger.warning("stored broker configuration is ignored: %s", invalid)
    return result


def _canonical(name: str, text: str) -> str:
    check_length(name, text)
    row = find_broker_key(name)
    if row is None:
        return text
    _parse(name, row, text)
    return row.canonical(text)


def _parse(name: str, row: ConfigKey, text: str) -> None:
    try:
        row.parse(text)
    except InvalidConfig:
        if row.is_sensitive:
            raise InvalidConfig(f"Invalid value for configuration {name}") from None
        raise


def _needs_broker_id(name: str) -> bool:
    row = BROKER_KEYS.get(name)
    if row is not None:
        return row.update == "per-broker"
    return name.startswith(LISTENER_PREFIX) and name.split(".", 3)[-1] not in _CLUSTER_WIDE_OF_LISTENERS


def _check_change(current: Resolver, proposed: Resolver) -> None:
    """Refuse what does not fit together, and steps that are too large."""
    check_together(proposed)
    get = proposed.get
    if get("cordoned.log.dirs") != current.get("cordoned.log.dirs"):
        check_cordoned(proposed)  # a stored value whose directory is no longer configured hinders nothing else
    for unit in ("ms", "bytes"):
        check_local_retention(
            f"log.local.retention.{unit}",
            get(f"log.local.retention.{unit}"),
            f"log.retention.{unit}",
            get(f"retention.{unit}"),
        )
    for name in _FIXED_WHILE_RUNNING:
        if get(name) != current.get(name):
            raise InvalidConfig(f"{name} cannot be altered when using a Raft-based metadata quorum.")
    for name in _THREAD_COUNTS:
        _check_thread_count(name, current.get(name), get(name))


def _check_thread_count(name: str, before: int, after: int) -> None:
    if after == before:
        return
    failed = f"Dynamic thread count update validation failed for {name}={after}"
    if after < 1:
        raise InvalidConfig(f"{failed}, value should be at least 1")
    if after < before // 2:
        raise InvalidConfig(f"{failed}, value should be at least half the current value {before}")
    if after > before * 2:
        raise InvalidConfig(f"{failed}, value should not be greater than double the current value {before}")


def _set_of(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
