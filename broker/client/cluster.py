"""What a client knows of the cluster: a Metadata response, looked up by name."""

from __future__ import annotations

from typing import NamedTuple

from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_LEADER = -1


class TopicPartition(NamedTuple):
    """One partition by name; sorts as people expect."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Broker(NamedTuple):
    """One broker as it advertises itself."""

    id: int
    host: str
    port: int
    rack: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Cluster:
    """Brokers, and the topics that were asked for."""

    def __init__(self, response: MetadataResponse) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {row.node_id: Broker(row.node_id, row.host, row.port, row.rack) for row in response.brokers}
        self.topics: dict[str, MetadataResponseTopic] = {row.name: row for row in response.topics if row.name}

    def partition(self, partition: TopicPartition) -> MetadataResponsePartition | None:
        """Return what is known of a partition; None where there is no such topic or partition."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return None
        return next((row for row in topic.partitions if row.partition_index == partition.partition), None)

    def leader(self, partition: TopicPartition) -> int:
        """Return who leads a partition, -1 for nobody."""
        row = self.partition(partition)
        return NO_LEADER if row is None else row.leader_id

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions in order; none where there is no such topic."""
        row = self.topics.get(topic)
        indexes = sorted(part.partition_index for part in row.partitions) if row is not None else []
        return [TopicPartition(topic, index) for index in indexes]
