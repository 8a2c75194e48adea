"""The table: every key the broker knows, joined from the themes beside this file, by scope."""

from __future__ import annotations

from config.key import ConfigKey
from config.keys import (
    client_metrics,
    cluster,
    coordinator,
    group,
    log,
    network,
    own,
    remote,
    replication,
    security,
    share,
    topic,
    transaction,
)

_THEMES = (
    *(network, cluster, log, coordinator, share, transaction, replication, remote, security, own),
    *(topic, group, client_metrics),
)


def join(themes: tuple[tuple[ConfigKey, ...], ...]) -> dict[str, dict[str, ConfigKey]]:
    """Join rows into scope → name → row; a name twice in one scope is refused."""
    table: dict[str, dict[str, ConfigKey]] = {"broker": {}, "topic": {}, "group": {}, "client-metrics": {}}
    for rows in themes:
        for row in rows:
            if table[row.scope].setdefault(row.name, row) is not row:
                raise ValueError(f"configuration key {row.name} appears twice in scope {row.scope}")
    return table


_TABLE = join(tuple(theme.KEYS for theme in _THEMES))
BROKER_KEYS = _TABLE["broker"]
TOPIC_KEYS = _TABLE["topic"]
GROUP_KEYS = _TABLE["group"]
CLIENT_METRICS_KEYS = _TABLE["client-metrics"]

_SPELLINGS = (
    *(tuple(synonym.name for synonym in row.synonyms) for row in TOPIC_KEYS.values()),
    *((row.name, *(synonym.name for synonym in row.synonyms)) for row in BROKER_KEYS.values()),
)
SAME_SETTING = {name: names for names in _SPELLINGS if len(names) > 1 for name in names}
"""Broker keys that are one setting in several units or spellings → all of its names, the one that wins first."""

LISTENER_PREFIX = "listener.name."


def find_broker_key(name: str) -> ConfigKey | None:
    """Return the row of a broker-level name, also when it is written for one listener or one SASL mechanism."""
    if (row := BROKER_KEYS.get(name)) is not None:
        return row
    if not name.startswith(LISTENER_PREFIX):
        return None
    _, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    if (row := BROKER_KEYS.get(base)) is not None:
        return row
    _, _, base = base.partition(".")
    return BROKER_KEYS.get(base)
