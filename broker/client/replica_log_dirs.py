"""In which directories of a broker replicas lie, and how they are sent to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import check
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


class Place(NamedTuple):
    """Where a replica is, and where it is moving; None for nowhere."""

    current: str | None = None
    future: str | None = None


def places(client: Client, broker: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Place]:
    """Find replicas of a broker in those of its directories that work."""
    wanted: dict[str, DescribableLogDirTopic] = {}
    found: dict[TopicPartition, Place] = {}
    for partition in partitions:
        found[partition] = Place()
        wanted.setdefault(partition.topic, DescribableLogDirTopic(topic=partition.topic)).partitions.append(
            partition.partition
        )
    response = client.ask_retrying(DescribeLogDirsRequest(topics=list(wanted.values())), broker=broker)
    check(response.error_code)
    for result in response.results:
        for topic in result.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                known = found.get(partition, Place())
                found[partition] = (
                    known._replace(future=result.log_dir)
                    if row.is_future_key
                    else known._replace(current=result.log_dir)
                )
    return found


def move(client: Client, broker: int, destinations: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
    """Have a broker move replicas into directories; an error code for each. Where it lies already cancels a move."""
    dirs: dict[str, AlterReplicaLogDir] = {}
    for partition, path in destinations.items():
        topics = dirs.setdefault(path, AlterReplicaLogDir(path=path)).topics
        topic = next((topic for topic in topics if topic.name == partition.topic), None)
        if topic is None:
            topic = AlterReplicaLogDirTopic(name=partition.topic)
            topics.append(topic)
        topic.partitions.append(partition.partition)
    response = client.ask(AlterReplicaLogDirsRequest(dirs=list(dirs.values())), broker=broker)
    return {
        TopicPartition(topic.topic_name, row.partition_index): row.error_code
        for topic in response.results
        for row in topic.partitions
    }
