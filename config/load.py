"""From the command line to a checked Resolver: join the sources, fill in what nothing gives, refuse what cannot work.

Precedence of the static sources: --override, then environment, then properties file, then --defaults, a file for those
who ship the broker, then the embedded values below, which let it run with no configuration at all. A bad value ends in
one line with key, value and what is legal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from config.build import broker_config, network_config
from config.consistency import check_cordoned, check_together
from config.errors import InvalidConfig, invalid_value
from config.key import HIDDEN, ConfigKey
from config.keys import BROKER_KEYS, TOPIC_KEYS, find_broker_key
from config.resolve import Resolver
from config.sources import Layer, SourcedValue, from_environment, from_overrides, read_properties

_EMBEDDED_ORIGIN = "embedded default"
EMBEDDED: Layer = {
    "listeners": SourcedValue("PLAINTEXT://127.0.0.1:9092", _EMBEDDED_ORIGIN),
    "log.dirs": SourcedValue("./data", _EMBEDDED_ORIGIN),
}
_STANDS_FOR = {"log.dirs": "log.dir", "advertised.listeners": "listeners", "node.id": "broker.id"}
"""Keys whose default counts for nothing once another key is given: it would contradict it."""

_PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.")
"""Settings under these belong to plug-ins, whose names nobody can know."""


_ONLY_WHILE_RUNNING = frozenset(
    {
        "follower.replication.throttled.rate",
        "intra.broker.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Limits that are lifted again once they have served, so nothing static may set them."""


class Loaded(NamedTuple):
    """A configuration that passed every check, and what the operator should know about it, one line each."""

    resolver: Resolver
    warnings: tuple[str, ...]


def load(
    properties_path: str | None,
    environ: Mapping[str, str],
    overrides: Iterable[str],
    *,
    defaults_path: str | None = None,
) -> Loaded:
    """Load the static configuration. Raises InvalidConfig. Blocking: disk, and the resolver for a wildcard listener."""
    file = {} if properties_path is None else read_properties(properties_path)
    defaults = {} if defaults_path is None else read_properties(defaults_path)
    return check({**file, **from_environment(environ), **from_overrides(overrides)}, {**EMBEDDED, **defaults})


def check(given: Layer, defaults: Layer = EMBEDDED) -> Loaded:
    """Check what was given and complete it."""
    warnings = []
    for name, value in {**defaults, **given}.items():
        row = find_broker_key(name)
        if row is not None:
            _check_value(name, row, value)
        elif not name.startswith(_PLUGIN_PREFIXES):
            warnings.append(f"Unknown configuration key {name} is ignored ({value.origin}){_hint(name)}")
        if name in _ONLY_WHILE_RUNNING:
            warnings.append(f"{name} can only be set while the broker runs and is ignored ({value.origin})")
    usable = {name: value for name, value in given.items() if name not in _ONLY_WHILE_RUNNING}
    resolver = Resolver(_complete(usable, defaults))
    try:
        _check_roles(resolver)
        check_together(resolver)
        check_cordoned(resolver)
        network_config(resolver)
        broker_config(resolver)
    except InvalidConfig as error:
        raise InvalidConfig(_one_line(error.message)) from error
    if resolver.get("authorizer.class.name"):
        warnings.append(
            "authorizer.class.name only lets ACLs be kept and listed in this version: every client may do everything"
        )
    if resolver.get("remote.log.storage.system.enable"):
        warnings.append("remote.log.storage.system.enable has no effect in this version: all data stays on local disks")
    if len(resolver.get("controller.quorum.voters")) > 1:
        warnings.append(
            "controller.quorum.voters names several nodes, but in this version each node is a cluster of its own"
        )
    return Loaded(resolver, tuple(warnings))


def _hint(name: str) -> str:
    """Tell what may be meant by a key that no broker has; empty where nothing is like it."""
    if (row := TOPIC_KEYS.get(name)) is not None:
        own = f"; that of the broker is {row.synonyms[0].name}" if row.synonyms else ""
        return f": it is a key of topics{own}"
    from difflib import get_close_matches  # which only a mistake needs

    near = get_close_matches(name, BROKER_KEYS, n=1, cutoff=0.85)
    return f": did you mean {near[0]}?" if near else ""


def _check_value(name: str, row: ConfigKey, value: SourcedValue) -> None:
    try:
        row.parse(value.text)
    except InvalidConfig as error:
        text = HIDDEN if row.is_sensitive else value.text
        reason = (
            error.message if error.message.startswith("Invalid value") else invalid_value(name, text, error.message)
        )
        raise InvalidConfig(_one_line(f"{reason}; legal: {row.legal} ({value.origin})")) from error


def _complete(given: Layer, defaults: Layer) -> dict[str, SourcedValue]:
    """Add the values that nothing gives, and let the two names of the node id agree."""
    static = dict(given)
    if "node.id" in static and "broker.id" in static and static["node.id"].text != static["broker.id"].text:
        raise invalid_value("broker.id", static["broker.id"].text, f"must equal node.id, {static['node.id'].text}")
    if "broker.id" in static and int(static["broker.id"].text) >= 0:
        static.setdefault("node.id", static["broker.id"])
    if "listeners" not in static and "advertised.listeners" in static:
        static["listeners"] = _listeners_of(static["advertised.listeners"])
    chosen = frozenset(static)
    for name, value in defaults.items():
        if name not in chosen and _STANDS_FOR.get(name) not in chosen:
            static[name] = value
    return static


def _listeners_of(advertised: SourcedValue) -> SourcedValue:
    """Listen on every interface, as the official image does, once somebody says what to advertise and nothing else."""
    text = re.sub(r"://(\[[^\]]*\]|[^:,]*):", "://0.0.0.0:", advertised.text)
    return SourcedValue(text, f"derived from advertised.listeners, {advertised.origin}")


def _check_roles(resolver: Resolver) -> None:
    roles = resolver.get("process.roles")
    if roles is not None and "broker" not in roles:
        raise invalid_value(
            "process.roles", ",".join(roles), "this program is broker and controller in one; add broker"
        )


def _one_line(text: str) -> str:
    """Keep a value with line breaks from breaking the one line promised."""
    return " ".join(text.split())
