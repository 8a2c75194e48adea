"""Client quotas: altered as a plan on an image, and described; pure.

An entity is a user, a client id, both, or an address; each part is a name or the default of its type. An entity changes
wholly or not at all, and stands alone. Nothing is said here about what a quota does.

Source: ClientQuotaControlManager, ClientQuotasImage, QuotaConfig; KIP-546, KIP-612.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.metadata.access import QuotaEntity, quota_record
from broker.metadata.controller.plan import MAX_RECORDS_PER_COMMAND, Plan
from broker.metadata.errors import InvalidRequest, MetadataError, PolicyViolation, UnsupportedVersion
from broker.metadata.image import ClusterImage

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

_LONG, _INT = ("LONG", 2.0**63), ("INT", 2.0**31 - 1)
_KEYS_OF_CLIENTS: Mapping[str, tuple[str, float] | None] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_KEYS_OF_ADDRESSES: Mapping[str, tuple[str, float] | None] = {"connection_creation_rate": _INT}
"""Key to its whole-number type and the largest value of it; None takes fractions."""

_TOLERATED_FRACTION = 1e-6


class QuotaChange(NamedTuple):
    """A value for one key, or None to remove it."""

    key: str
    value: float | None


class QuotaAlteration(NamedTuple):
    """What is to happen to one entity."""

    entity: QuotaEntity
    changes: tuple[QuotaChange, ...]


class QuotaResult(NamedTuple):
    """One entity: altered, or why not."""

    entity: QuotaEntity
    error: MetadataError | None = None


class Match(IntEnum):
    """How a part of an entity is asked for, numbered as on the wire."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any entity that has the type."""


class QuotaFilter(NamedTuple):
    """One part of an entity that is asked for; the match as it came."""

    entity_type: str
    match_type: int
    name: str | None


def plan_alter_quotas(
    image: ClusterImage, alterations: Sequence[QuotaAlteration], unknown_hosts: Collection[str]
) -> Plan[list[QuotaResult]]:
    """Plan an alteration. One result an entity, in the order first named.

    `unknown_hosts` are those among the addresses that are none and that nobody could resolve.
    """
    counts = Counter(one.entity for one in alterations)
    records: list[object] = []
    results: list[QuotaResult] = []
    for one in {one.entity: one for one in alterations}.values():
        try:
            if counts[one.entity] > 1:
                raise InvalidRequest(f"Ignoring duplicate entity {_spelt(one.entity)}")
            records.extend(_records(image, one, unknown_hosts))
        except MetadataError as refusal:
            results.append(QuotaResult(one.entity, refusal))
        else:
            results.append(QuotaResult(one.entity))
    if len(records) > MAX_RECORDS_PER_COMMAND:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    return Plan(records, results)


def describe_quotas(
    image: ClusterImage, filters: Iterable[QuotaFilter], *, strict: bool
) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
    """Yield the entities that have every part asked for, and no others when strict.

    Raises: InvalidRequest; UnsupportedVersion for a type of entity nobody knows.
    """
    wanted = _checked_filters(filters)
    for entity, values in image.access.quotas.items():
        names = dict(entity)
        if strict and len(names) != len(wanted):
            continue
        if all(
            kind in names and (one.match_type == Match.SPECIFIED or names[kind] == one.name)
            for kind, one in wanted.items()
        ):
            yield entity, values


def _records(image: ClusterImage, one: QuotaAlteration, unknown_hosts: Collection[str]) -> Iterator[object]:
    twice = [key for key, count in Counter(change.key for change in one.changes).items() if count > 1]
    if twice:
        raise InvalidRequest(f"Duplicate quota key {twice[0]} of entity {_spelt(one.entity)}")
    legal = _keys_of(one.entity, unknown_hosts)
    before = image.access.quotas.get(one.entity, {})
    changes: list[object] = []
    for key, value in one.changes:
        if value is not None:
            _check_value(legal, key, value)
        if before.get(key) != value:
            changes.append(quota_record(one.entity, key, value))
    return iter(changes)


def _keys_of(entity: QuotaEntity, unknown_hosts: Collection[str]) -> Mapping[str, tuple[str, float] | None]:
    """Return the keys that an entity may have. Raises InvalidRequest when there can be no such entity."""
    names = dict(entity)
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    if not names:
        raise InvalidRequest("Invalid empty client quota entity")
    if IP not in names:
        return _KEYS_OF_CLIENTS
    if len(names) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    if names[IP] in unknown_hosts:
        raise InvalidRequest(f"{names[IP]} is not a valid IP or resolvable host.")
    return _KEYS_OF_ADDRESSES


def _check_value(legal: Mapping[str, tuple[str, float] | None], key: str, value: float) -> None:
    if key not in legal:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if math.isnan(value) or value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    whole = legal[key]
    if whole is None:
        return
    name, largest = whole
    if value > largest:
        raise InvalidRequest(f"Proposed value for {key} is too large for {'an' if name == 'INT' else 'a'} {name}.")
    if value % 1.0 > _TOLERATED_FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def _checked_filters(filters: Iterable[QuotaFilter]) -> dict[str, QuotaFilter]:
    wanted: dict[str, QuotaFilter] = {}
    for one in filters:
        kind = one.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in wanted:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        if one.match_type not in Match.__members__.values():
            raise InvalidRequest(f"Unknown match type {one.match_type}")
        if one.match_type == Match.EXACT and one.name is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if one.match_type != Match.EXACT and one.name is not None:
            match = Match(one.match_type).name
            raise InvalidRequest(f"Request specified MATCH_TYPE_{match}, but also specified a match string.")
        wanted[kind] = one
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return wanted


def _spelt(entity: QuotaEntity) -> str:
    return "ClientQuotaEntity(entries={" + ", ".join(f"{kind}={name}" for kind, name in entity) + "})"
