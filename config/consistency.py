"""Values that are legal alone but not with each other, whichever layers they come from."""

from __future__ import annotations

from collections.abc import Callable

from config.errors import InvalidConfig, invalid_value
from config.keys import TOPIC_KEYS
from config.resolve import Resolver

_DEDUPE_BUFFER_MIN_BYTES = 1024 * 1024
"""A cleaner thread with less memory for keys could not hold the entries of one batch."""

ALL_LOG_DIRS = "*"
"""Alone in cordoned.log.dirs it stands for every log directory."""


def log_dirs_key(resolver: Resolver) -> str:
    """Return the name of the key that says which log directories there are."""
    return "log.dirs" if resolver.get("log.dirs") is not None else "log.dir"


def check_together(resolver: Resolver) -> None:
    """Raise InvalidConfig unless a broker can run with all values in force."""
    get = resolver.get
    if get("retention.ms") == 0:
        raise invalid_value("log.retention.ms", 0, "must be at least 1, or -1 for unlimited (minutes and hours alike)")
    _check_inherited(resolver)
    shortest, longest = get("log.cleaner.min.compaction.lag.ms"), get("log.cleaner.max.compaction.lag.ms")
    if shortest > longest:
        reason = f"must not be greater than log.cleaner.max.compaction.lag.ms, {longest}"
        raise invalid_value("log.cleaner.min.compaction.lag.ms", shortest, reason)
    threads = max(get("log.cleaner.threads"), 1)
    if get("log.cleaner.enable") and get("log.cleaner.dedupe.buffer.size") // threads <= _DEDUPE_BUFFER_MIN_BYTES:
        reason = f"must give each of {threads} log.cleaner.threads more than {_DEDUPE_BUFFER_MIN_BYTES} bytes"
        raise invalid_value("log.cleaner.dedupe.buffer.size", get("log.cleaner.dedupe.buffer.size"), reason)
    shortest, longest = get("group.min.session.timeout.ms"), get("group.max.session.timeout.ms")
    if shortest > longest:
        reason = f"must not be greater than group.max.session.timeout.ms, {longest}"
        raise invalid_value("group.min.session.timeout.ms", shortest, reason)
    for kind in ("consumer", "share", "streams"):
        _check_assignment_interval(resolver, f"group.{kind}.{{}}assignment.interval.ms".format)


def _check_assignment_interval(resolver: Resolver, key: Callable[[str], str]) -> None:
    """Refuse what a kind of groups could not have; it changes while the broker runs, its bounds do not."""
    interval_ms = resolver.get(key(""))
    if interval_ms < resolver.get(key("min.")):
        raise InvalidConfig(f"{key('')} must be greater than or equal to {key('min.')}")
    if interval_ms > resolver.get(key("max.")):
        raise InvalidConfig(f"{key('')} must be less than or equal to {key('max.')}")


def _check_inherited(resolver: Resolver) -> None:
    """Refuse broker values that a topic could not have: some broker keys have no bounds of their own."""
    for row in TOPIC_KEYS.values():
        if row.synonyms and row.validator is not None:
            row.validator.check(row.synonyms[0].name, resolver.get(row.name))


def check_cordoned(resolver: Resolver) -> None:
    """Raise InvalidConfig if something is to be cordoned that is no log directory; spellings are compared."""
    cordoned = dict.fromkeys(resolver.get("cordoned.log.dirs"))
    if ALL_LOG_DIRS in cordoned:
        if len(cordoned) > 1:
            raise InvalidConfig(
                "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"
            )
        return
    log_dirs = resolver.get(log_dirs_key(resolver))
    missing = [entry for entry in cordoned if entry not in log_dirs]
    if missing:
        raise InvalidConfig(
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )
