"""Which brokers are to have which partitions: what is under way, and how it is asked for or ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.client.client import Client
from broker.client.cluster import TopicPartition
from broker.client.errors import check, describe
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)

Ongoing = dict[TopicPartition, OngoingPartitionReassignment]


def reassignments(client: Client, partitions: Iterable[TopicPartition] | None = None) -> Ongoing:
    """Return the reassignments between brokers that are under way, all or those of partitions. Raises: Refused."""
    topics: dict[str, ListPartitionReassignmentsTopics] = {}
    for name, index in partitions or ():
        topic = topics.setdefault(name, ListPartitionReassignmentsTopics(name=name, partition_indexes=[]))
        topic.partition_indexes.append(index)
    request = ListPartitionReassignmentsRequest(topics=None if partitions is None else list(topics.values()))
    response = client.ask_retrying(request, broker=client.controller())
    check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): row for topic in response.topics for row in topic.partitions
    }


def reassign(
    client: Client, replicas: Mapping[TopicPartition, list[int] | None], *, allows_factor_change: bool
) -> dict[TopicPartition, str]:
    """Have brokers take partitions, None ends what is under way; why each of some is refused. Raises: Refused."""
    topics: dict[str, ReassignableTopic] = {}
    for partition, brokers in sorted(replicas.items()):
        topic = topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic))
        topic.partitions.append(ReassignablePartition(partition_index=partition.partition, replicas=brokers))
    request = AlterPartitionReassignmentsRequest(
        topics=list(topics.values()), allow_replication_factor_change=allows_factor_change
    )
    response = client.ask_retrying(request, broker=client.controller())
    check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): row.error_message or describe(row.error_code)
        for topic in response.responses
        for row in topic.partitions
        if row.error_code
    }
