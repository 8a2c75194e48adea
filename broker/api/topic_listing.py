"""What Metadata says about topics, built once per topic image and kept while the image lasts.

A listing of thousands of partitions would spend most of its time building the same structs again. They are shared
between responses, hence never changed after they are built; replica lists are shared between partitions as well.
"""

from __future__ import annotations

from dataclasses import replace

from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from broker.metadata.names import INTERNAL_TOPICS
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

AUTHORIZED_OPERATIONS_NOT_ASKED = -(2**31)
TOPIC_AUTHORIZED_OPERATIONS = 3576
"""Read, write, create, delete, alter, describe, describe and alter configs: bit n for operation code n."""


class TopicListing:
    """Topics as Metadata response structs."""

    def __init__(self) -> None:
        # Structs by topic name with the image each was built from, all for the brokers of `_brokers`.
        self._structs: dict[str, tuple[TopicImage, MetadataResponseTopic]] = {}
        self._brokers: object = None
        self._topics: object = None
        self._lists: dict[tuple[int, ...], list[int]] = {}

    def all_topics(self, image: ClusterImage, *, with_operations: bool) -> list[MetadataResponseTopic]:
        """Return every topic."""
        return [self.topic(image, topic, with_operations=with_operations) for topic in image.topics_by_name.values()]

    def topic(self, image: ClusterImage, topic: TopicImage, *, with_operations: bool) -> MetadataResponseTopic:
        """Return one topic of `image`."""
        if self._topics is not image.topics_by_name or self._brokers is not image.brokers:
            self._follow(image)
        kept = self._structs.get(topic.name)
        if kept is None or kept[0] is not topic:
            kept = self._structs[topic.name] = topic, self._build(image, topic)
        struct = kept[1]
        if with_operations:
            return replace(struct, topic_authorized_operations=TOPIC_AUTHORIZED_OPERATIONS)
        return struct

    def _follow(self, image: ClusterImage) -> None:
        """Drop what a new image made stale: everything when brokers changed, else topics that are gone."""
        if self._brokers is not image.brokers:
            self._structs.clear()
            self._lists.clear()
        else:
            present = image.topics_by_name
            self._structs = {name: kept for name, kept in self._structs.items() if present.get(name) is kept[0]}
        self._topics, self._brokers = image.topics_by_name, image.brokers

    def _build(self, image: ClusterImage, topic: TopicImage) -> MetadataResponseTopic:
        live = {broker.broker_id for broker in image.active_brokers()}
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                self._build_partition(image, number, partition, live)
                for number, partition in enumerate(topic.partitions)
            ],
        )

    def _build_partition(
        self, image: ClusterImage, number: int, partition: PartitionImage, live: set[int]
    ) -> MetadataResponsePartition:
        leads = partition.leader in live
        return MetadataResponsePartition(
            error_code=ErrorCode.NONE if leads else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=partition.leader if leads else NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=self._shared(partition.replicas),
            isr_nodes=self._shared(partition.isr),
            offline_replicas=self._shared(tuple(image.offline_replicas(partition))),
        )

    def _shared(self, ids: tuple[int, ...]) -> list[int]:
        shared = self._lists.get(ids)
        if shared is None:
            shared = self._lists[ids] = list(ids)
        return shared
