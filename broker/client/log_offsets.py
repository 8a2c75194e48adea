"""Where logs begin and end, and which offset a time has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from broker.client.client import Client, Result
from broker.client.cluster import TopicPartition
from broker.client.errors import Refused
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
NO_OFFSET = -1
"""The offset of a time after which there is nothing."""
CONSUMER = -1
"""In place of a replica: whoever asks reads what is committed."""

Found = dict[TopicPartition, tuple[Refused | None, int | None]]


def log_offsets(client: Client, times: Mapping[TopicPartition, int], *, isolation_level: int = 0) -> Found:
    """Find the offset of a time in each partition: LATEST, EARLIEST, or milliseconds since 1970.

    Raises: ConnectionFailed; what a leader refuses stands in the result.
    """

    def build(led: list[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition in led:
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
            row = ListOffsetsPartition(partition_index=partition.partition, timestamp=times[partition])
            topic.partitions.append(row)
        return ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=isolation_level,
            topics=list(topics.values()),
            timeout_ms=int(client.settings.request_timeout_s * 1000),
        )

    return client.ask_leaders(times, build, _results)


def end_offsets(client: Client, partitions: Iterable[TopicPartition]) -> Found:
    """Find where logs end."""
    return log_offsets(client, dict.fromkeys(partitions, LATEST))


def start_offsets(client: Client, partitions: Iterable[TopicPartition]) -> Found:
    """Find where logs begin."""
    return log_offsets(client, dict.fromkeys(partitions, EARLIEST))


def _results(response: ListOffsetsResponse) -> Iterator[Result[int]]:
    for topic in response.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row.error_code, row.offset
