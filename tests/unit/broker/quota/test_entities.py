"""Whose quota holds for whom, and who shares it."""

from __future__ import annotations

from itertools import combinations

import pytest

from broker.quota.entities import CLIENT_ID, USER, Entity, Quota, Sharers, limits_of, quota_for

ANN, APP = "ann", "app"
BY_PRECEDENCE: tuple[tuple[Entity, Sharers], ...] = (
    (((CLIENT_ID, APP), (USER, ANN)), Sharers(ANN, APP)),
    (((CLIENT_ID, None), (USER, ANN)), Sharers(ANN, APP)),
    (((USER, ANN),), Sharers(ANN, "")),
    (((CLIENT_ID, APP), (USER, None)), Sharers(ANN, APP)),
    (((CLIENT_ID, None), (USER, None)), Sharers(ANN, APP)),
    (((USER, None),), Sharers(ANN, "")),
    (((CLIENT_ID, APP),), Sharers("", APP)),
    (((CLIENT_ID, None),), Sharers("", APP)),
)


@pytest.mark.parametrize(("high", "low"), [*combinations(range(8), 2)])
def test_of_two_levels_the_more_specific_one_holds(high: int, low: int) -> None:
    limits = {BY_PRECEDENCE[low][0]: 1.0, BY_PRECEDENCE[high][0]: 2.0}
    assert quota_for(limits, ANN, APP) == Quota(2.0, BY_PRECEDENCE[high][1])


@pytest.mark.parametrize("level", range(8))
def test_each_level_holds_alone_and_for_nobody_else(level: int) -> None:
    entity, sharers = BY_PRECEDENCE[level]
    assert quota_for({entity: 3.0}, ANN, APP) == Quota(3.0, sharers)
    other = quota_for({entity: 3.0}, "bob", "other")
    if None in dict(entity).values() and not {ANN, APP} & set(dict(entity).values()):
        assert other is not None and other.sharers == Sharers("bob" if sharers.user else "", "other" * bool(sharers[1]))
    else:
        assert other is None


def test_who_sends_no_client_id_is_held_to_quotas_of_users_alone() -> None:
    limits = {entity: float(number) for number, (entity, _) in enumerate(BY_PRECEDENCE)}
    assert quota_for(limits, ANN, "") == Quota(2.0, Sharers(ANN, ""))
    assert quota_for(limits, "bob", "") == Quota(5.0, Sharers("bob", ""))
    del limits[((USER, None),)]
    assert quota_for(limits, "bob", "") is None


def test_each_key_has_limits_of_its_own() -> None:
    quotas = {((USER, ANN),): {"a": 1.0, "b": 2.0}, ((USER, None),): {"b": 3.0}}
    assert limits_of(quotas, "a") == {((USER, ANN),): 1.0}
    assert limits_of(quotas, "b") == {((USER, ANN),): 2.0, ((USER, None),): 3.0}
