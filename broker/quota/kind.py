"""One kind of quota, say of produced bytes: the limits that are set, and the use that each who shares one makes of it.

Only what a quota holds for is measured. Uses are forgotten an hour after the last one, and the one longest ago when
there are too many: client ids are what clients make up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from broker.quota.entities import Entity, EntityQuotas, Quota, Sharers, limits_of, quota_for

EXPIRY_MS = 3_600_000
MAX_USES = 20_000
MAX_KNOWN_CLIENTS = 20_000
LONGEST_KNOWN_CLIENT = 256
"""Whose names are longer, is looked up each time: a client id may have 32 thousand characters."""
MAX_NAMES_LENGTH = 8_000_000
"""Of all uses of a kind; those used longest ago go before there are more."""


class Measure(Protocol):
    """What the use of a quota is measured by: see broker.quota.rates."""

    def level(self, quota: float, now_ms: int) -> float:
        """Return what is to be shown of it."""

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long nothing may be done; 0 within the quota."""


M = TypeVar("M", bound=Measure)


class Use(Generic[M]):
    """What those who share a quota have done lately, and how they were throttled for it."""

    __slots__ = ("last_ms", "limit", "measure", "throttled_count", "throttled_ms")

    def __init__(self, measure: M, now_ms: int) -> None:
        self.measure = measure
        self.limit = 0.0  # set with each look
        self.last_ms = now_ms
        self.throttled_ms = 0
        self.throttled_count = 0

    def note_throttle(self, throttle_ms: int) -> None:
        """Count that somebody has to wait."""
        self.throttled_ms += throttle_ms
        self.throttled_count += 1


class QuotaKind(Generic[M]):
    """The quotas of one key."""

    def __init__(self, key: str, name: str, new_measure: Callable[[float, int], M]) -> None:
        """`new_measure` is given the limit and the time."""
        self.key = key
        self.name = name
        self._new_measure = new_measure
        self._limits: dict[Entity, float] = {}
        # What `quota_for` has said; emptied when it might say something else.
        self._known: dict[tuple[str, str], Quota | None] = {}
        self._uses: dict[Sharers, Use[M]] = {}  # the one used longest ago first
        self._names_length = 0

    @property
    def is_set(self) -> bool:
        """Tell whether anybody has a quota of this kind."""
        return bool(self._limits)

    @property
    def use_count(self) -> int:
        """How many uses are measured now."""
        return len(self._uses)

    def most_throttled(self, at_most: int) -> list[tuple[Sharers, Use[M]]]:
        """Return the uses, or so many of them as were throttled most."""
        return sorted(self._uses.items(), key=lambda one: -one[1].throttled_ms)[:at_most]

    def follow(self, quotas: EntityQuotas) -> None:
        """Let these quotas hold from now on; what was done before still counts, until there is no quota at all."""
        limits = limits_of(quotas, self.key)
        if limits != self._limits:
            self._limits = limits
            self._known.clear()
        if not limits:
            self._uses.clear()
            self._names_length = 0

    def quota(self, user: str, client_id: str) -> Quota | None:
        """Return the quota that holds for a client."""
        if not self._limits:
            return None
        client = user, client_id
        try:
            return self._known[client]
        except KeyError:
            return self._learn(client)

    def use(self, user: str, client_id: str, now_ms: int) -> Use[M] | None:
        """Return the use that a client shares, None when no quota holds for it."""
        quota = self.quota(user, client_id)
        if quota is None:
            return None
        use = self._uses.pop(quota.sharers, None)
        if use is None:
            use = Use(self._new_measure(quota.limit, now_ms), now_ms)
            self._make_room(quota.sharers)
        self._uses[quota.sharers] = use
        use.limit = quota.limit
        use.last_ms = now_ms
        return use

    def forget_idle(self, now_ms: int) -> None:
        """Forget the uses of those who were not heard of for an hour."""
        idle = []
        for sharers, use in self._uses.items():
            if now_ms - use.last_ms < EXPIRY_MS:
                break
            idle.append(sharers)
        for sharers in idle:
            self._drop(sharers)

    def _make_room(self, sharers: Sharers) -> None:
        self._names_length += _names_length(sharers)
        while self._uses and (len(self._uses) >= MAX_USES or self._names_length > MAX_NAMES_LENGTH):
            self._drop(next(iter(self._uses)))

    def _drop(self, sharers: Sharers) -> None:
        del self._uses[sharers]
        self._names_length -= _names_length(sharers)

    def _learn(self, client: tuple[str, str]) -> Quota | None:
        quota = quota_for(self._limits, *client)
        if sum(map(len, client)) <= LONGEST_KNOWN_CLIENT:
            if len(self._known) >= MAX_KNOWN_CLIENTS:
                self._known.clear()
            self._known[client] = quota
        return quota


def _names_length(sharers: Sharers) -> int:
    return len(sharers.user) + len(sharers.client_id)
