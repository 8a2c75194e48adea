"""Whose quota holds for a client: the most specific one that is set, and who shares it.

A quota of a user is shared by all its clients, one of a client id by all its users; where both are named, or stand for
both, each pair has its own. So a default is not shared: each of those it stands for has as much. Who sends no client id
can be known by its user alone. Source: ClientQuotaManager.DefaultQuotaCallback, KIP-55.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"

Entity = tuple[tuple[str, str | None], ...]
"""Type and name of each part, by type; no name is the default of the type."""

EntityQuotas = Mapping[Entity, Mapping[str, float]]
"""Values of quotas by key, of each entity that has any."""


class Sharers(NamedTuple):
    """Who shares one use of a quota: a user's name, a client id, or a pair; what does not matter is empty."""

    user: str
    client_id: str


class Quota(NamedTuple):
    """The quota that holds for a client."""

    limit: float
    sharers: Sharers


def quota_for(limits: Mapping[Entity, float], user: str, client_id: str) -> Quota | None:
    """Return the quota of one key that holds for a client, None when it may do what it wants."""
    for entity in _candidates(user, client_id):
        limit = limits.get(entity)
        if limit is not None:
            types = [kind for kind, _ in entity]
            return Quota(limit, Sharers(user if USER in types else "", client_id if CLIENT_ID in types else ""))
    return None


def _candidates(user: str, client_id: str) -> tuple[Entity, ...]:
    """List the entities that a client belongs to, the most specific one first."""
    this_user, any_user = (USER, user), (USER, None)
    if not client_id:
        return (this_user,), (any_user,)
    this_id, any_id = (CLIENT_ID, client_id), (CLIENT_ID, None)
    return (
        (this_id, this_user),
        (any_id, this_user),
        (this_user,),
        (this_id, any_user),
        (any_id, any_user),
        (any_user,),
        (this_id,),
        (any_id,),
    )


def limits_of(quotas: EntityQuotas, key: str) -> dict[Entity, float]:
    """Return the values of one key by entity."""
    return {entity: values[key] for entity, values in quotas.items() if key in values}
