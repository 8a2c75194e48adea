"""Internal topics: their names, which partition a group belongs to, and creating them when first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache

from broker.metadata.image import ClusterImage, Delta
from broker.runtime.failures import unexplained

logger = logging.getLogger(__name__)

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"

LONGEST_REMEMBERED_KEY = 256
"""What follows from a longer name of a group, or a transactional id, is computed each time: it may have 32 thousand
characters."""

INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})


def java_string_hash(text: str) -> int:
    """Compute Java's String.hashCode: over UTF-16 units, in 32 bits, signed."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def partition_for(key: str, partition_count: int) -> int:
    """Give the partition of an internal topic that keeps the state of a group (or transactional id).

    Source: Utils.abs, which makes 0 of the one number that has no positive twin.
    """
    return (_remembered if len(key) <= LONGEST_REMEMBERED_KEY else _partition_for)(key, partition_count)


def _partition_for(key: str, partition_count: int) -> int:
    absolute = abs(java_string_hash(key))
    return (absolute if absolute < 1 << 31 else 0) % partition_count


_remembered = lru_cache(maxsize=16_384)(_partition_for)


def changed_leaders(delta: Delta, image: ClusterImage, topic: str) -> list[int] | None:
    """Give the leader of each partition of a topic, by number, when a step has changed one of them; None when not."""
    changed = (*delta.created_partitions, *delta.changed_partitions)
    if all(placed.topic.name != topic for placed in changed):
        return None
    return [partition.leader for partition in image.topics_by_name[topic].partitions]


class InternalTopics:
    """Creates internal topics on demand, each by one attempt at a time."""

    def __init__(self, exists: Callable[[str], bool], create: Callable[[str], Awaitable[object]]) -> None:
        self._exists = exists
        self._create = create
        # Topics being created, with whoever waits for them.
        self._attempts: dict[str, asyncio.Future[None]] = {}

    async def ensure(self, topic: str) -> bool:
        """Create the topic unless it is there; False when that failed and the caller may try again later."""
        if self._exists(topic):
            return True
        attempt = self._attempts.get(topic)
        if attempt is not None:
            await asyncio.shield(attempt)
            return self._exists(topic)
        attempt = self._attempts[topic] = asyncio.get_running_loop().create_future()
        try:
            await self._create(topic)
        except Exception as failure:
            logger.error("internal topic not created topic=%s reason=%s", topic, failure, exc_info=unexplained(failure))
        finally:
            del self._attempts[topic]
            attempt.set_result(None)
        return self._exists(topic)
