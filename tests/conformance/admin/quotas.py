"""Chapters about quotas of clients."""

from __future__ import annotations

from typing import Any

from tests.conformance.admin.step import Step


def _entity(**names: str | None) -> list[dict[str, Any]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]


def _quota(key: str, value: float, *, remove: bool = False) -> dict[str, Any]:
    return {"key": key, "value": value, "remove": remove}


def _alter_quotas(*entries: tuple[list[dict[str, Any]], list[dict[str, Any]]], validate_only: bool) -> dict[str, Any]:
    return {"entries": [{"entity": entity, "ops": ops} for entity, ops in entries], "validate_only": validate_only}


def quota_refusals() -> list[Step]:
    """Check quotas, good and bad."""
    user, rate = _entity(user="{t}"), _quota("producer_byte_rate", 1000.0)
    asked: dict[str, list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]] = {
        "nothing": [],
        "no entity": [([], [rate])],
        "no operation": [(user, [])],
        "a user": [(user, [rate])],
        "a client": [(_entity(client_id="{t}"), [rate])],
        "a user and a client": [(_entity(user="{t}", client_id="c"), [rate])],
        "default user": [(_entity(user=None), [rate])],
        "default client of a user": [(_entity(user="{t}", client_id=None), [rate])],
        "empty user": [(_entity(user=""), [rate])],
        "empty client": [(_entity(client_id=""), [rate])],
        "unknown type": [(_entity(color="red"), [rate])],
        "unknown type without a name": [(_entity(color=""), [rate])],
        "empty type": [([{"entity_type": "", "entity_name": "x"}], [rate])],
        "a type twice": [([*user, *_entity(user="b")], [rate])],
        "user and unknown type": [([*user, *_entity(color="b")], [rate])],
        "address": [(_entity(ip="127.0.0.1"), [_quota("connection_creation_rate", 10.0)])],
        "address of six": [(_entity(ip="::1"), [_quota("connection_creation_rate", 10.0)])],
        "default address": [(_entity(ip=None), [_quota("connection_creation_rate", 10.0)])],
        "no address": [(_entity(ip="not an address"), [_quota("connection_creation_rate", 10.0)])],
        "empty address": [(_entity(ip=""), [_quota("connection_creation_rate", 10.0)])],
        "address and user": [(_entity(ip="127.0.0.1", user="a"), [_quota("connection_creation_rate", 10.0)])],
        "byte rate of an address": [(_entity(ip="127.0.0.1"), [rate])],
        "connection rate of a user": [(user, [_quota("connection_creation_rate", 10.0)])],
        "consumer rate": [(user, [_quota("consumer_byte_rate", 1.0)])],
        "percentage": [(user, [_quota("request_percentage", 12.5)])],
        "mutation rate": [(user, [_quota("controller_mutation_rate", 0.5)])],
        "value 0": [(user, [_quota("producer_byte_rate", 0.0)])],
        "value -1": [(user, [_quota("producer_byte_rate", -1.0)])],
        "fraction of a byte": [(user, [_quota("producer_byte_rate", 1.5)])],
        "almost a whole byte": [(user, [_quota("producer_byte_rate", 2.0000001)])],
        "value too large": [(user, [_quota("producer_byte_rate", 1e30)])],
        "fraction of a connection": [(_entity(ip="127.0.0.1"), [_quota("connection_creation_rate", 1.5)])],
        "too many connections": [(_entity(ip="127.0.0.1"), [_quota("connection_creation_rate", 3e9)])],
        "percentage 0": [(user, [_quota("request_percentage", 0.0)])],
        "not a number": [(user, [_quota("request_percentage", float("nan"))])],
        "infinite": [(user, [_quota("request_percentage", float("inf"))])],
        "unknown key": [(user, [_quota("no_such_key", 1.0)])],
        "remove an unknown key": [(user, [_quota("no_such_key", 1.0, remove=True)])],
        "remove what is not set": [(user, [_quota("producer_byte_rate", 0.0, remove=True)])],
        "a key twice": [(user, [rate, _quota("producer_byte_rate", 2000.0)])],
        "set and remove": [(user, [rate, _quota("producer_byte_rate", 0.0, remove=True)])],
        "one good, one bad key": [(user, [rate, _quota("consumer_byte_rate", -1.0)])],
        "an entity twice": [(user, [rate]), (user, [_quota("consumer_byte_rate", 1.0)])],
        "one good, one bad entity": [(user, [rate]), (_entity(color="red"), [rate])],
        "an entity twice, in another order": [
            (_entity(user="a", client_id="b"), [rate]),
            (_entity(client_id="b", user="a"), [rate]),
        ],
        "a scram key": [(user, [_quota("SCRAM-SHA-256", 1.0)])],
        "a long name": [(_entity(user="u" * 300), [rate])],
    }
    return [
        Step(name, "alter_client_quotas", 1, _alter_quotas(*entries, validate_only=True))
        for name, entries in asked.items()
    ]


def quotas() -> list[Step]:
    """Set quotas and filter them."""
    exact, default, any_name = 0, 1, 2

    def described(*parts: tuple[str, int, str | None], strict: bool = False) -> dict[str, Any]:
        rows = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in parts]
        return {"components": rows, "strict": strict}

    rate, other = _quota("producer_byte_rate", 1000.0), _quota("consumer_byte_rate", 2000.0)
    entries = [
        (_entity(user="{t}"), [rate, other]),
        (_entity(user="{t}", client_id="c"), [rate]),
        (_entity(user="{t}", client_id=None), [_quota("request_percentage", 12.5)]),
        (_entity(user=None), [other]),
        (_entity(client_id="c"), [other]),
        (_entity(ip="127.0.0.9"), [_quota("connection_creation_rate", 10.0)]),
    ]
    questions: dict[str, dict[str, Any]] = {
        "all": described(),
        "all, strict": described(strict=True),
        "the user": described(("user", exact, "{t}")),
        "the user, strict": described(("user", exact, "{t}"), strict=True),
        "default user": described(("user", default, None)),
        "any user": described(("user", any_name, None)),
        "any user, strict": described(("user", any_name, None), strict=True),
        "user and client": described(("user", exact, "{t}"), ("client-id", exact, "c")),
        "user and default client": described(("user", exact, "{t}"), ("client-id", default, None)),
        "user and any client": described(("user", exact, "{t}"), ("client-id", any_name, None)),
        "any client": described(("client-id", any_name, None)),
        "address": described(("ip", exact, "127.0.0.9")),
        "any address": described(("ip", any_name, None)),
        "nobody": described(("user", exact, "nobody")),
        "unknown type": described(("color", exact, "red")),
        "empty type": described(("", exact, "red")),
        "a type twice": described(("user", exact, "a"), ("user", exact, "b")),
        "address and user": described(("ip", exact, "127.0.0.9"), ("user", exact, "a")),
        "exact without a name": described(("user", exact, None)),
        "default with a name": described(("user", default, "a")),
        "any with a name": described(("user", any_name, "a")),
        "unknown match": described(("user", 3, None)),
        "negative match": described(("user", -1, None)),
    }
    cleared = [(entity, [_quota(one["key"], 0.0, remove=True) for one in ops]) for entity, ops in entries]
    return [
        Step("set", "alter_client_quotas", 1, _alter_quotas(*entries, validate_only=False)),
        *(Step(name, "describe_client_quotas", 1, values) for name, values in questions.items()),
        Step("the user, v0", "describe_client_quotas", 0, questions["the user"]),
        Step(
            "change",
            "alter_client_quotas",
            0,
            _alter_quotas((entries[0][0], [_quota("producer_byte_rate", 5.0)]), validate_only=False),
        ),
        Step("changed", "describe_client_quotas", 1, questions["the user, strict"]),
        Step("clear", "alter_client_quotas", 1, _alter_quotas(*cleared, validate_only=False)),
        Step("cleared", "describe_client_quotas", 1, questions["all"]),
    ]
