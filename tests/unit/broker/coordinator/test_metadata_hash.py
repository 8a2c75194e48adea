"""The hashes of subscriptions: right after every change of the topics, and remembered within bounds."""

from __future__ import annotations

import dataclasses

import pytest

from broker.coordinator.group.consumer import metadata_hash
from broker.coordinator.group.consumer.metadata_hash import TopicHashes, topic_hash
from broker.metadata.image import ClusterImage, PartitionImage, TopicImage

PARTITION = PartitionImage(1, 0, 0, (1,), (1,), (bytes(16),))


def image_of(**partition_counts: int) -> ClusterImage:
    topics = {
        name: TopicImage(name, name.encode().rjust(16, b"\0"), (PARTITION,) * count)
        for name, count in partition_counts.items()
    }
    return ClusterImage("c", topics, {topic.topic_id: topic for topic in topics.values()})


def test_a_change_of_the_topics_is_seen_and_nothing_of_the_ones_before_is_kept() -> None:
    hashes, before, after = TopicHashes(), image_of(a=1, b=1), image_of(a=1, b=2)
    first = hashes.of_topics(["a", "b"], before)
    assert hashes.of_topics(("b", "a", "missing"), before) == first
    assert len(hashes._known_sets) == 2
    assert hashes.of_topics(["a", "b"], after) not in (first, 0)
    assert len(hashes._known_sets) == 1
    assert hashes.of_topics(["a", "b"], before) == first
    assert hashes.of_topics([], dataclasses.replace(before, end_offset=9)) == 0
    assert topic_hash(before.topics_by_name["b"], {}) != topic_hash(after.topics_by_name["b"], {})


def test_subscriptions_are_remembered_up_to_so_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_hash, "MAX_KNOWN_NAMES", 100)
    hashes, image = TopicHashes(), image_of(a=1)
    for number in range(50):
        names = ["a", *(f"{number}-{other}" for other in range(20))]
        assert hashes.of_topics(names, image) == hashes.of_topics(["a"], image)
        assert 1 <= len(hashes._known_sets) <= 5
    hashes.of_topics([f"large-{number}" for number in range(1000)], image)
    assert len(hashes._known_sets) == 0
