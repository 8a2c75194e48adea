"""What administrators have changed, as lines of the log: topics, settings, features, quotas, credentials, ACLs.

A step of the metadata leaves so many lines at most. Values are shown where DescribeConfigs would show them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar

from broker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    Delta,
)
from config.key import HIDDEN, ConfigKey
from config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from protocol.uuids import format_uuid

logger = logging.getLogger(__name__)

MAX_LINES = 20
"""Of one step."""

Line = tuple[str, tuple[object, ...]]
"""A message and its arguments."""

RESOURCES: Mapping[int, tuple[str, Mapping[str, ConfigKey]]] = {
    TOPIC_RESOURCE: ("topic", TOPIC_KEYS),
    BROKER_RESOURCE: ("broker", BROKER_KEYS),
    CLIENT_METRICS_RESOURCE: ("client-metrics", CLIENT_METRICS_KEYS),
    GROUP_RESOURCE: ("group", GROUP_KEYS),
}

K = TypeVar("K")
V = TypeVar("V")


class ChangeLog:
    """A publisher of the metadata tells it of changes."""

    def __init__(self, image: ClusterImage) -> None:
        self._before = image

    def publish(self, delta: Delta, image: ClusterImage) -> None:
        """Follow a new image."""
        before, self._before = self._before, image
        lines = _lines(before, delta, image)
        for message, arguments in islice(lines, MAX_LINES):
            logger.info(message, *arguments)
        if more := sum(1 for _ in lines):
            logger.info("more changes of the cluster count=%d", more)


def _lines(before: ClusterImage, delta: Delta, image: ClusterImage) -> Iterator[Line]:
    yield from _topics(before, delta)
    for resource in sorted(delta.changed_configs):
        yield from _configs(resource, before.configs.get(resource, {}), image.configs.get(resource, {}))
    if before.features:  # else they are the levels that a new cluster begins with
        for name, old, new in _differences(before.features, image.features):
            yield "feature changed feature=%s level=%s before=%s", (name, new or 0, old or 0)
    if image.access is not before.access:
        yield from _access(before, image)


def _topics(before: ClusterImage, delta: Delta) -> Iterator[Line]:
    for topic in delta.deleted_topics:
        yield "topic deleted topic=%s id=%s", (topic.name, format_uuid(topic.topic_id))
    added = {entry.topic.topic_id: entry.topic for entry in delta.created_partitions}
    for topic_id, topic in added.items():
        known = before.topics_by_id.get(topic_id)
        text = "topic created" if known is None else "partitions added"
        if known is None or len(known.partitions) < len(topic.partitions):
            yield f"{text} topic=%s id=%s partitions=%d", (topic.name, format_uuid(topic_id), len(topic.partitions))


def _configs(resource: tuple[int, str], old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Line]:
    kind, name = resource
    label, rows = RESOURCES.get(kind, (str(kind), {}))

    def text(key: str, value: str | None) -> str:
        if value is None:
            return f"{key} (removed)"
        row = rows.get(key)
        return f"{key}={HIDDEN if row is None or row.is_sensitive else value}"

    changed = ", ".join(text(key, value) for key, _, value in _differences(old, new))
    if changed:
        yield "configs changed %s=%s %s", (label, name or "(default)", changed)


def _access(before: ClusterImage, image: ClusterImage) -> Iterator[Line]:
    for entity, _, quotas in _differences(before.access.quotas, image.access.quotas):
        whom = " ".join(f"{kind}={'(default)' if name is None else name}" for kind, name in entity)
        shown = ", ".join(f"{key}={value:g}" for key, value in sorted((quotas or {}).items()))
        yield "quotas changed %s %s", (whom, shown or "(removed)")
    for (user, mechanism), _, credential in _differences(before.access.credentials, image.access.credentials):
        what = "removed" if credential is None else "set"
        yield f"credential {what} user=%s mechanism=%d", (user, mechanism)
    for _, old, new in _differences(before.access.acls, image.access.acls):
        yield ("acl removed %s", (old,)) if new is None else ("acl added %s", (new,))


def _differences(old: Mapping[K, V], new: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    """Yield what is not the same in both, with both values."""
    if old is new:
        return
    for key, value in old.items():
        if key not in new:
            yield key, value, None
    for key, value in new.items():
        if old.get(key) != value:
            yield key, old.get(key), value
