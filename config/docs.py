"""What people read about the table: the reference in docs/config.md, and the values in force as text.

`python -m config.docs` prints the reference. A key has an effect if some view reads it, as a recording resolver tells,
and the work that the view is for exists; a test holds the list of what does not exist yet to the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config.build import (
    GROUP_SETTING_KEYS,
    broker_config,
    cleaner_config,
    cordoned_log_dirs,
    group_config,
    log_manager_config,
    metrics_config,
    move_config,
    network_config,
    quota_config,
    transaction_config,
    verification_config,
)
from config.key import HIDDEN, ConfigKey
from config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, find_broker_key
from config.resolve import ConfigSource, Resolver
from config.sources import SourcedValue
from config.views import log_config

_INTRODUCTION = """\
# Configuration

Generated from the table in `config/keys/` by `make docs`; do not edit.

Values come from `--override key=value`, the environment (`KAFKA_LOG_DIRS` is `log.dirs`), the properties file, and the
defaults below, in this order of precedence. Names and defaults are those of Apache Kafka 4.3; keys that begin with
`odradek.` are our own. With nothing configured the broker listens on `127.0.0.1:9092` and keeps its data under
`./data`.

A key marked *accepted* is understood and checked, and described to clients, but changes nothing in this version.
*dynamic* names the reach of a key that Kafka lets an administrator change while the broker runs: one broker or all.
"""


WITHOUT_EFFECT_YET = {
    "topic": frozenset(
        {
            "local.retention.bytes",
            "local.retention.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
            "unclean.leader.election.enable",
        }
    ),
    "broker": frozenset(
        {
            "controlled.shutdown.enable",
            "offsets.commit.timeout.ms",
            "offsets.load.buffer.size",
            "offsets.topic.compression.codec",
            "offsets.topic.replication.factor",
            "request.timeout.ms",
            "socket.receive.buffer.bytes",
            "socket.send.buffer.bytes",
            "unstable.api.versions.enable",
        }
    ),
}
"""Keys that a view holds for work this version does not do; the synonyms of those among them go with them."""


class _Recorder(Resolver):
    """A resolver that remembers which rows it was asked for."""

    def __init__(self, static: Mapping[str, SourcedValue]) -> None:
        super().__init__(static)
        self.read: set[tuple[str, str]] = set()

    def get(self, name: str) -> object:
        self.read.add(("broker", name))
        if name in BROKER_KEYS:
            self.read.update(("broker", synonym.name) for synonym in BROKER_KEYS[name].synonyms)
        return super().get(name)

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> object:
        self.read.add(("topic", name))
        self.read.update(("broker", synonym.name) for synonym in TOPIC_KEYS[name].synonyms)
        return super().topic_value(name, overrides)


def keys_in_use() -> set[tuple[str, str]]:
    """Return (scope, name) of every key that changes what the broker does."""
    recorder = _Recorder({})
    log_config(recorder, {})
    network_config(recorder, host_name=lambda: "localhost")
    group_values = {("group", name) for name in GROUP_SETTING_KEYS}
    for build in (
        broker_config,
        log_manager_config,
        cleaner_config,
        metrics_config,
        move_config,
        quota_config,
        group_config,
        transaction_config,
        verification_config,
    ):
        build(recorder)
    cordoned_log_dirs(recorder)
    # Read on other paths than a view: at load, and where one name stands in for another.
    recorder.read |= {("broker", name) for name in ("broker.id", "log.dirs", "process.roles")}
    recorder.read |= {(row.scope, name) for name, row in CLIENT_METRICS_KEYS.items()}
    dormant = {(scope, name) for scope, names in WITHOUT_EFFECT_YET.items() for name in names}
    for rows, names in ((TOPIC_KEYS, WITHOUT_EFFECT_YET["topic"]), (BROKER_KEYS, WITHOUT_EFFECT_YET["broker"])):
        dormant.update(("broker", synonym.name) for name in names for synonym in rows[name].synonyms)
    return (recorder.read | group_values) - dormant


def render_reference() -> str:
    """Render the whole table as Markdown."""
    used = keys_in_use()
    own = [row for row in BROKER_KEYS.values() if row.name.startswith("odradek.")]
    broker = [row for row in BROKER_KEYS.values() if row not in own]
    return "\n".join(
        [
            _INTRODUCTION,
            *_section("Broker keys", broker, used),
            *_section("Odradek's own keys", own, used),
            *_section("Topic keys", TOPIC_KEYS.values(), used),
            *_section("Group keys", GROUP_KEYS.values(), used),
            *_section("Keys of client metrics subscriptions", CLIENT_METRICS_KEYS.values(), used),
        ]
    )


def render_effective(resolver: Resolver) -> str:
    """Render each broker key in force as `key=value  # origin`, passwords masked, sorted by name."""
    given = resolver.layer_names(ConfigSource.STATIC_BROKER)
    return "".join(_effective_line(resolver, name) for name in sorted({*BROKER_KEYS, *given}))


def _effective_line(resolver: Resolver, name: str) -> str:
    effective = resolver.effective(name)
    row = find_broker_key(name)
    text = effective.text or ""
    if text and (row is None or row.is_sensitive):
        # An unknown key may be a misspelt password.
        text = HIDDEN
    if effective.source is ConfigSource.STATIC_BROKER:
        origin = resolver.static[effective.synonyms[0].name].origin
    else:
        origin = effective.source.name.lower().replace("_", " ")
    return f"{name}={text}  # {origin}{'' if row is not None else ', unknown key'}\n"


def _section(title: str, rows: Iterable[ConfigKey], used: set[tuple[str, str]]) -> list[str]:
    lines = [f"## {title}", ""]
    for row in sorted(rows, key=lambda row: row.name):
        lines += [*_entry(row, (row.scope, row.name) in used), ""]
    return lines


def _entry(row: ConfigKey, is_used: bool) -> list[str]:
    facts = [row.legal.replace("*", r"\*"), f"default {_code(row.default_text)}"]
    if row.scope == "broker" and not row.is_read_only:
        facts.append(f"dynamic, {row.update}")
    if row.synonyms:
        words = "inherits from " if row.scope != "broker" else "also spelt "
        facts.append(words + ", ".join(_code(synonym.name) for synonym in row.synonyms))
    if row.internal:
        facts.append("internal")
    if not is_used:
        facts.append("*accepted*")
    return [f"**`{row.name}`** — {row.doc}  ", "; ".join(facts)]


def _code(text: str | None) -> str:
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    print(render_reference(), end="")
