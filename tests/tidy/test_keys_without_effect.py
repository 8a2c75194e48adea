"""The reference says of a key that it changes nothing exactly where no code asks for it.

Of the settings of a log every single field is looked at.
"""

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from config import views
from config.docs import WITHOUT_EFFECT_YET, keys_in_use
from config.keys import BROKER_KEYS, TOPIC_KEYS

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {"broker/cli", "broker/client"}
"""Clients: they have settings of their own, some of which are named like the broker's."""
READERS = "\n".join(
    path.read_text(encoding="utf-8")
    for room in ("broker", "storage")
    for path in sorted((ROOT / room).rglob("*.py"))
    if not any(path.is_relative_to(ROOT / tools) for tools in TOOLS)
)
VIEWS = (
    "LogConfig",
    "CleanerConfig",
    "LogManagerConfig",
    "MoveConfig",
    "NetworkConfig",
    "ConnectionLimits",
    "QuotaConfig",
    "BrokerConfig",
    "GroupConfig",
    "TransactionConfig",
    "VerificationConfig",
)
# Asked for by the views' own methods, not by name.
THROUGH_METHODS = {f"compression_{codec}_level" for codec in ("gzip", "lz4", "zstd")} | {
    "delivery_mode",
    "max_compaction_lag_ms",
}
# Another view hands the same key on.
READ_ELSEWHERE = {"message.max.bytes"}
# Ends like another key's field.
NAMESAKES = {"offsets.retention.check.interval.ms", "delete.retention.ms"}


def fields_of(view: str) -> list[str]:
    kind = getattr(views, view)
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)


def is_asked_for(field: str) -> bool:
    return field in THROUGH_METHODS or re.search(rf"\.{field}\b", READERS) is not None


@pytest.mark.parametrize("view", VIEWS)
def test_what_no_code_asks_for_is_marked(view: str) -> None:
    used = {name for _, name in keys_in_use()} - READ_ELSEWHERE - NAMESAKES
    marked_wrongly = {
        name
        for field in fields_of(view)
        if not is_asked_for(field)
        for name in used
        if name.replace(".", "_").endswith(field) and (view == "LogConfig") is (name in TOPIC_KEYS)
    }
    assert not marked_wrongly


def test_what_is_marked_is_asked_for_by_nobody() -> None:
    fields = {field for view in VIEWS for field in fields_of(view)}
    asked = {field for field in fields if is_asked_for(field)}
    for scope, names in WITHOUT_EFFECT_YET.items():
        rows = TOPIC_KEYS if scope == "topic" else BROKER_KEYS
        for name in names:
            assert name in rows
            assert name.replace(".", "_") not in asked, name


def test_every_field_of_a_log_is_read_but_those_of_work_that_has_not_come() -> None:
    """There is no remote tier and no second replica yet."""
    unread = {field for field in fields_of("LogConfig") if not is_asked_for(field)}
    assert unread == {
        *("remote_storage_enable", "remote_log_copy_disable", "remote_log_delete_on_disable"),
        *("local_retention_ms", "local_retention_bytes"),
        "unclean_leader_election_enable",
    }


def methods_that_read(field: str) -> set[str]:
    """Return the properties and methods of LogConfig that read a field, by way of others too."""
    (view,) = ast.parse(inspect.getsource(views.LogConfig)).body
    assert isinstance(view, ast.ClassDef)
    reads = {
        method.name: {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)}
        for method in view.body
        if isinstance(method, ast.FunctionDef)
    }
    found: set[str] = set()
    while more := {name for name, names in reads.items() if names & {field, *found}} - found:
        found |= more
    return found


def keys_of(field: str) -> set[str]:
    return {field.replace("_", "."), "odradek.log." + field.replace("_", ".")}


def is_read(field: str) -> bool:
    """Tell whether storage or broker ask for the field or for what is made of it."""
    return any(re.search(rf"\.{name}\b", READERS) is not None for name in {field, *methods_that_read(field)})


@pytest.mark.parametrize("field", fields_of("LogConfig"))
def test_every_field_of_a_log_s_settings_is_read_or_marked(field: str) -> None:
    marked = WITHOUT_EFFECT_YET["topic"] | WITHOUT_EFFECT_YET["broker"]
    assert is_read(field) is not bool(keys_of(field) & marked)
