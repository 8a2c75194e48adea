"""Client quotas as plans: which entities and values there can be, and which entities a filter finds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from broker.metadata.access import AccessImage, QuotaEntity, quota_entity
from broker.metadata.controller import quotas
from broker.metadata.controller.quotas import (
    QuotaAlteration,
    QuotaChange,
    QuotaFilter,
    describe_quotas,
    plan_alter_quotas,
)
from broker.metadata.errors import InvalidRequest, MetadataError, PolicyViolation, UnsupportedVersion
from broker.metadata.image import ClusterImage
from tests.unit.broker.conftest import Node

EMPTY = ClusterImage("c")
RATE = "producer_byte_rate"


def entity(**names: str | None) -> QuotaEntity:
    return quota_entity({kind.replace("_", "-"): name for kind, name in names.items()})


def alteration(who: QuotaEntity, *changes: tuple[str, float | None]) -> QuotaAlteration:
    return QuotaAlteration(who, tuple(QuotaChange(*one) for one in changes))


def refused(*alterations: QuotaAlteration, unknown_hosts: tuple[str, ...] = ()) -> list[str | None]:
    plan = plan_alter_quotas(EMPTY, alterations, unknown_hosts)
    return [None if one.error is None else str(one.error) for one in plan.result]


@pytest.mark.parametrize(
    "who",
    [
        entity(user="u"),
        entity(user=None),
        entity(client_id="c"),
        entity(client_id=None, user="u"),
        entity(client_id=None, user=None),
    ],
)
def test_clients_are_users_client_ids_or_both_by_name_or_default(who: QuotaEntity) -> None:
    keys = (RATE, "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    assert refused(alteration(who, *((key, 1.0) for key in keys))) == [None]
    assert refused(alteration(who, ("connection_creation_rate", 1.0))) == [
        "Invalid configuration key connection_creation_rate"
    ]


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "host", None])
def test_addresses_have_a_connection_rate_alone(name: str | None) -> None:
    assert refused(alteration(entity(ip=name), ("connection_creation_rate", 5.0))) == [None]
    assert refused(alteration(entity(ip=name), (RATE, 5.0))) == [f"Invalid configuration key {RATE}"]


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ((), "Invalid empty client quota entity"),
        (entity(color="red"), "Unhandled client quota entity type: color"),
        (entity(user=""), "Empty user not supported"),
        (entity(client_id=""), "Empty client-id not supported"),
        (entity(ip=""), "Empty ip not supported"),
        (entity(ip="x y"), "x y is not a valid IP or resolvable host."),
    ],
)
def test_entities_that_cannot_be(who: QuotaEntity, message: str) -> None:
    assert refused(alteration(who, (RATE, 1.0)), unknown_hosts=("x y",)) == [message]


def test_an_address_stands_alone() -> None:
    [message] = refused(alteration(entity(ip="127.0.0.1", user="u"), (RATE, 1.0)))
    assert message is not None and "should not be combined" in message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        (RATE, -1.0, f"Quota {RATE} must be greater than 0"),
        ("request_percentage", math.nan, "Quota request_percentage must be greater than 0"),
        (RATE, 1.5, f"{RATE} cannot be a fractional value."),
        (RATE, 1e30, f"Proposed value for {RATE} is too large for a LONG."),
        (RATE, 2.0000001, None),
        (RATE, 2.0**63 - 1024, None),
        ("request_percentage", 0.5, None),
        ("controller_mutation_rate", math.inf, None),
        ("no_such_key", 1.0, "Invalid configuration key no_such_key"),
        ("no_such_key", None, None),  # removing what cannot be set does no harm
    ],
)
def test_values(key: str, value: float | None, message: str | None) -> None:
    assert refused(alteration(entity(user="u"), (key, value))) == [message]


def test_an_address_may_have_only_so_many_connections() -> None:
    who = entity(ip=None)
    assert refused(alteration(who, ("connection_creation_rate", 2.0**31))) == [
        "Proposed value for connection_creation_rate is too large for an INT."
    ]
    assert refused(alteration(who, ("connection_creation_rate", 1.5))) == [
        "connection_creation_rate cannot be a fractional value."
    ]


def test_what_stands_twice_is_refused_wholly() -> None:
    who = entity(user="u")
    plan = plan_alter_quotas(EMPTY, [alteration(who, (RATE, 1.0)), alteration(who, (RATE, 2.0))], ())
    assert (plan.records, [str(one.error) for one in plan.result]) == (
        [],
        ["Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"],
    )
    plan = plan_alter_quotas(EMPTY, [alteration(who, (RATE, 1.0), (RATE, None))], ())
    assert plan.records == [] and isinstance(plan.result[0].error, InvalidRequest)


def test_an_entity_changes_wholly_or_not_at_all_and_stands_alone() -> None:
    bad = alteration(entity(user="u"), (RATE, 1.0), ("consumer_byte_rate", -1.0))
    plan = plan_alter_quotas(EMPTY, [bad, alteration(entity(user="v"), (RATE, 1.0))], ())
    assert [one.error is None for one in plan.result] == [False, True]
    assert len(plan.records) == 1


def test_only_what_changes_is_recorded() -> None:
    who = entity(user="u")
    image = replace(EMPTY, access=AccessImage(quotas={who: {RATE: 1.0}}))
    assert plan_alter_quotas(image, [alteration(who, (RATE, 1.0), ("consumer_byte_rate", None))], ()).records == []
    assert len(plan_alter_quotas(image, [alteration(who, (RATE, None))], ()).records) == 1


def test_one_request_changes_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MAX_RECORDS_PER_COMMAND", 1)
    with pytest.raises(PolicyViolation):
        plan_alter_quotas(EMPTY, [alteration(entity(user=name), (RATE, 1.0)) for name in "ab"], ())


ENTITIES = {
    "user": entity(user="u"),
    "default user": entity(user=None),
    "client": entity(client_id="c"),
    "both": entity(user="u", client_id="c"),
    "default client": entity(user="u", client_id=None),
    "address": entity(ip="127.0.0.1"),
}
DESCRIBED = replace(EMPTY, access=AccessImage(quotas={one: {RATE: 1.0} for one in ENTITIES.values()}))


def found(*filters: tuple[str, int, str | None], strict: bool = False) -> set[str]:
    hits = [who for who, _ in describe_quotas(DESCRIBED, [QuotaFilter(*one) for one in filters], strict=strict)]
    return {name for name, who in ENTITIES.items() if who in hits}


def test_filters() -> None:
    assert found() == set(ENTITIES)
    assert found(strict=True) == set()
    assert found(("user", 0, "u")) == {"user", "both", "default client"}
    assert found(("user", 0, "u"), strict=True) == {"user"}
    assert found(("user", 1, None)) == {"default user"}
    assert found(("user", 2, None)) == {"user", "default user", "both", "default client"}
    assert found(("user", 0, "u"), ("client-id", 1, None)) == {"default client"}
    assert found(("client-id", 2, None), strict=True) == {"client"}
    assert found(("ip", 2, None)) == {"address"}


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ([("", 0, "x")], InvalidRequest),
        ([("color", 0, "x")], UnsupportedVersion),
        ([("user", 0, "x"), ("user", 1, None)], InvalidRequest),
        ([("user", 0, None)], InvalidRequest),
        ([("user", 1, "x")], InvalidRequest),
        ([("user", 2, "x")], InvalidRequest),
        ([("user", 3, None)], InvalidRequest),
        ([("user", 0, "x"), ("ip", 2, None)], InvalidRequest),
    ],
)
def test_filters_that_make_no_sense(filters: list[tuple[str, int, str | None]], error: type[MetadataError]) -> None:
    with pytest.raises(error):
        found(*filters)


async def test_quotas_survive_a_start(node: Node) -> None:
    controller = await node.start()
    who = entity(user=None, client_id="c")
    await controller.execute(lambda image: plan_alter_quotas(image, [alteration(who, (RATE, 7.0))], ()))
    await controller.close()
    controller = await node.start()
    assert controller.image.access.quotas == {who: {RATE: 7.0}}
    await controller.close()
