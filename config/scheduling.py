"""What scheduled delivery cannot be combined with, under what a topic says itself and what it inherits.

There is no broker key for the mode, so a topic is scheduled only by an override; what excludes it may be inherited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from config.errors import InvalidConfig
from config.resolve import Resolver

Overrides = Mapping[str, str]

_COMPACTED = (
    "delivery.mode=scheduled is unsupported for compacted topics, cleanup.policy={policy}: "
    "compaction could remove a record before it is delivered"
)
_STAMPED = (
    "delivery.mode=scheduled is unsupported with message.timestamp.type=LogAppendTime: "
    "the time of the append would replace the one at which a record is to be delivered"
)


def is_scheduled(overrides: Overrides) -> bool:
    """Tell whether a topic's records become visible at the time that they carry."""
    return overrides.get("delivery.mode", "").strip() == "scheduled"


def check_delivery(overrides: Overrides, resolver: Resolver) -> None:
    """Raise InvalidConfig if a topic is scheduled and something else that holds for it excludes that."""
    obstacle = obstacle_to_delivery(overrides, resolver)
    if obstacle is not None:
        raise InvalidConfig(obstacle)


def obstacle_to_delivery(overrides: Overrides, resolver: Resolver) -> str | None:
    """Say why a topic cannot be scheduled, None if it can be or is not."""
    if not is_scheduled(overrides):
        return None
    policy = resolver.topic_value("cleanup.policy", overrides)
    if "compact" in policy:
        return _COMPACTED.format(policy=",".join(policy))
    if resolver.topic_value("message.timestamp.type", overrides) == "LogAppendTime":
        return _STAMPED
    return None


def check_inheritors(topics: Iterable[tuple[str, Overrides]], current: Resolver, proposed: Resolver) -> None:
    """Raise InvalidConfig if a change of a broker's values excludes what a scheduled topic can be so far."""
    for name, overrides in topics:
        obstacle = obstacle_to_delivery(overrides, proposed)
        if obstacle is not None and obstacle_to_delivery(overrides, current) is None:
            raise InvalidConfig(f"Topic {name} would inherit this: {obstacle}")
