"""One number for all topics a group subscribes to: when it changes, the group has to be assigned anew.

It is stored with the group's epoch, so it is computed as Kafka does: XXH3 over each topic's id, name and partitions,
then over the topics' hashes in order of their names. Nobody has racks here but the broker itself.
Source: Utils.computeTopicHash, computeGroupHash; KIP-1101. Strings go in as UTF-16 units, then their count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, pack

from xxhash import xxh3_64_intdigest

from broker.metadata.image import ClusterImage, TopicImage

_HEAD = Struct("<bqq")
_INT = Struct("<i")
_UUID = Struct(">qq")

_VERSION = 0

MAX_KNOWN_NAMES = 50_000
"""Subscriptions are remembered with their hashes up to so many names in all, an empty one counting as one."""


class _KnownSets:
    """The hashes of subscriptions while the topics are these; threads may add to it."""

    __slots__ = ("_by_names", "_name_count", "racks", "topics")

    def __init__(self, topics: Mapping[str, TopicImage], racks: dict[int, str | None]) -> None:
        self.topics = topics
        self.racks = racks
        self._by_names: dict[frozenset[str], int] = {}
        self._name_count = 0

    def get(self, names: frozenset[str]) -> int | None:
        return self._by_names.get(names)

    def put(self, names: frozenset[str], computed: int) -> None:
        count = len(names) + 1
        self._name_count += count
        if self._name_count > MAX_KNOWN_NAMES:
            self._by_names, self._name_count = {}, count
        if count <= MAX_KNOWN_NAMES:
            self._by_names[names] = computed

    def __len__(self) -> int:
        return len(self._by_names)


class TopicHashes:
    """The hashes of topics, computed once for each state a topic is in."""

    def __init__(self) -> None:
        # By name, with the topic as it was: an image keeps what it does not change.
        self._known: dict[str, tuple[TopicImage, dict[int, str | None], int]] = {}
        # By the names asked for; replaced when the topics are others.
        self._known_sets = _KnownSets({}, {})

    def of_topics(self, names: Iterable[str], image: ClusterImage) -> int:
        """Give the hash of the topics among `names` that exist; 0 of none. Signed, as it is stored."""
        racks = {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
        asked, topics, sets = frozenset(names), image.topics_by_name, self._known_sets
        if sets.topics is not topics or sets.racks != racks:
            sets = self._known_sets = _KnownSets(topics, racks)
        known = sets.get(asked)
        if known is None:
            known = self._of_set(asked, topics, racks)
            sets.put(asked, known)
        return known

    def _of_set(self, names: frozenset[str], topics: Mapping[str, TopicImage], racks: dict[int, str | None]) -> int:
        found = [name for name in names if name in topics]
        if not found:
            return 0
        # Of ASCII names Java's order is ours.
        found.sort(key=None if all(map(str.isascii, found)) else _java_order)
        hashes = [self._of_topic(topics[name], racks) for name in found]
        return _signed(xxh3_64_intdigest(pack(f"<{len(hashes)}q", *hashes)))

    def forget(self, name: str) -> None:
        """Forget a topic that is gone."""
        self._known.pop(name, None)

    def _of_topic(self, topic: TopicImage, racks: dict[int, str | None]) -> int:
        known = self._known.get(topic.name)
        if known is not None and known[0] is topic and known[1] == racks:
            return known[2]
        computed = topic_hash(topic, racks)
        self._known[topic.name] = (topic, racks, computed)
        return computed


def topic_hash(topic: TopicImage, racks: dict[int, str | None]) -> int:
    """Compute the hash of one topic."""
    parts = [_HEAD.pack(_VERSION, *_UUID.unpack(topic.topic_id)), _text(topic.name), _INT.pack(len(topic.partitions))]
    for number, partition in enumerate(topic.partitions):
        parts.append(_INT.pack(number))
        of_partition = sorted(
            (rack for id in partition.replicas if (rack := racks.get(id)) is not None), key=_java_order
        )
        for rack in of_partition:
            parts += (_INT.pack(_utf16_length(rack)), _text(rack))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _INT.pack(_utf16_length(text))


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
