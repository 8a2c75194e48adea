"""ACLs as plans: which rules there can be, and which a filter means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from broker.metadata.access import AccessImage, Acl
from broker.metadata.controller import acls
from broker.metadata.controller.acls import AclFilter, matching_acls, plan_create_acls, plan_delete_acls
from broker.metadata.errors import InvalidRequest, PolicyViolation
from broker.metadata.image import ClusterImage
from tests.unit.broker.conftest import Node

EMPTY = ClusterImage("c")
TOPIC, GROUP, CLUSTER = 2, 3, 4
LITERAL, PREFIXED, ANY, MATCH = 3, 4, 1, 2
RULE = Acl(TOPIC, "t", LITERAL, "User:a", "*", 3, 3)
EVERY = AclFilter(1, None, ANY, None, None, 1, 1)


@pytest.fixture
def new_id() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "big")


def image_of(*rules: Acl) -> ClusterImage:
    return replace(EMPTY, access=AccessImage(acls={bytes([at]) * 16: rule for at, rule in enumerate(rules, 1)}))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (RULE._replace(resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (RULE._replace(resource_name=""), "Invalid empty resource name"),
        *((RULE._replace(resource_type=kind), f"Invalid resourceType {kind}") for kind in (0, 1, 8)),
        *((RULE._replace(pattern_type=kind), f"Invalid patternType {kind}") for kind in (0, 1, 2, 5)),
        *((RULE._replace(operation=number), f"Invalid operation {number}") for number in (0, 1, 16)),
        *((RULE._replace(permission_type=number), f"Invalid permissionType {number}") for number in (0, 1, 4)),
        (RULE._replace(principal="alice"), "Could not parse principal from `alice`"),
    ],
)
def test_rules_that_cannot_be(rule: Acl, message: str, new_id: Callable[[], bytes]) -> None:
    plan = plan_create_acls(EMPTY, [rule, RULE], new_id)
    refusal, created = plan.result
    assert isinstance(refusal, InvalidRequest) and str(refusal).startswith(message)
    assert created is None and len(plan.records) == 1


def test_a_rule_that_is_there_is_created_without_a_record(new_id: Callable[[], bytes]) -> None:
    assert plan_create_acls(image_of(RULE), [RULE], new_id).records == []
    plan = plan_create_acls(EMPTY, [RULE, RULE, RULE._replace(host="h")], new_id)
    assert (len(plan.records), plan.result) == (2, [None, None, None])


RULES = {
    "literal": RULE,
    "wildcard": RULE._replace(resource_name="*"),
    "prefix": RULE._replace(resource_name="te", pattern_type=PREFIXED),
    "prefix star": RULE._replace(resource_name="*", pattern_type=PREFIXED),
    "group": RULE._replace(resource_type=GROUP),
    "deny": RULE._replace(permission_type=2, operation=4, principal="User:b", host="h"),
}


def meant(**values: object) -> set[str]:
    wanted = EVERY._replace(**values)
    hits = list(matching_acls(image_of(*RULES.values()), wanted))
    return {name for name, rule in RULES.items() if rule in hits}


def test_filters() -> None:
    assert meant() == set(RULES)
    assert meant(resource_type=GROUP) == {"group"}
    assert meant(pattern_type=PREFIXED) == {"prefix", "prefix star"}
    assert meant(resource_name="t") == {"literal", "group", "deny"}
    assert meant(resource_name="te", pattern_type=LITERAL) == set()
    assert meant(resource_name="test", pattern_type=MATCH) == {"wildcard", "prefix"}
    assert meant(resource_name="t", pattern_type=MATCH) == {"literal", "wildcard", "group", "deny"}
    assert meant(principal="User:b") == meant(host="h") == meant(operation=4) == meant(permission_type=2) == {"deny"}
    assert meant(operation=99) == meant(resource_type=0) == meant(pattern_type=0) == set()


def test_deletion_tells_each_filter_what_it_met_and_deletes_it_once() -> None:
    image = image_of(*RULES.values())
    plan = plan_delete_acls(image, [EVERY._replace(resource_name="t"), EVERY._replace(resource_type=GROUP)])
    assert [len(one.deleted) for one in plan.result] == [3, 1]
    assert len(plan.records) == 3
    plan = plan_delete_acls(image, [EVERY._replace(resource_name="none")])
    assert (plan.records, list(plan.result[0].deleted), plan.result[0].error) == ([], [], None)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (EVERY._replace(resource_type=0), "Unknown patternFilter."),
        (EVERY._replace(pattern_type=9), "Unknown patternFilter."),
        (EVERY._replace(operation=0), "Unknown entryFilter."),
        (EVERY._replace(permission_type=9), "Unknown entryFilter."),
    ],
)
def test_nothing_is_deleted_by_a_filter_that_means_nothing(wanted: AclFilter, message: str) -> None:
    plan = plan_delete_acls(image_of(RULE), [wanted])
    assert (plan.records, str(plan.result[0].error)) == ([], message)


def test_one_request_changes_only_so_much(monkeypatch: pytest.MonkeyPatch, new_id: Callable[[], bytes]) -> None:
    monkeypatch.setattr(acls, "MAX_RECORDS_PER_COMMAND", 1)
    with pytest.raises(PolicyViolation):
        plan_create_acls(EMPTY, [RULE, RULE._replace(host="h")], new_id)
    with pytest.raises(PolicyViolation):
        plan_delete_acls(image_of(RULE, RULE._replace(host="h")), [EVERY])


async def test_rules_survive_a_start(node: Node, new_id: Callable[[], bytes]) -> None:
    controller = await node.start()
    await controller.execute(lambda image: plan_create_acls(image, [RULE], new_id))
    await controller.close()
    controller = await node.start()
    assert list(controller.image.access.acls.values()) == [RULE]
    await controller.execute(lambda image: plan_delete_acls(image, [EVERY]))
    assert not controller.image.access.acls
    await controller.close()
