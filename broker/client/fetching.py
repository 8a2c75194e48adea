"""Reading partitions from their leaders: whole fetches without a session, and the records that a consumer may see.

Control batches are never shown, nor, for a reader of what is committed, records of transactions that were aborted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from broker.client.client import Client
from broker.client.cluster import NO_LEADER, TopicPartition
from broker.client.errors import ClientError
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records.batch import BatchHeader, TimestampType, check_crc, iter_batches
from protocol.records.control import ControlType, control_type_of
from protocol.records.errors import RecordsError
from protocol.records.record import Record, iter_records

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
BY_NAME = 12
"""The last version in which topics have names."""
MIN_BYTES = 1
MAX_BYTES = 50 << 20
MAX_PARTITION_BYTES = 1 << 20
"""As in Kafka: `fetch.max.bytes` and `max.partition.fetch.bytes`. A larger batch comes alone."""


class Consumed(NamedTuple):
    """A record as a consumer sees it."""

    partition: TopicPartition
    record: Record
    timestamp_type: TimestampType
    leader_epoch: int


class Fetched(NamedTuple):
    """What one fetch of a partition gave: records, where to go on, and the error that came instead."""

    partition: TopicPartition
    records: list[Consumed]
    next_offset: int
    error_code: int


def fetch(
    client: Client,
    positions: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> list[Fetched]:
    """Fetch from all leaders of the partitions, at their offsets, waiting for news. Raises: ConnectionFailed.

    A partition without a leader has the error LEADER_NOT_AVAILABLE, or UNKNOWN_TOPIC_OR_PARTITION.
    """
    led, fetched = _by_leader(client, positions)
    connections = [client.connection(leader) for leader in led]
    for connection, partitions in zip(connections, led.values(), strict=True):
        request = _request({one: positions[one] for one in partitions}, max_wait_ms, isolation_level)
        connection.send(request, at_most=BY_NAME)
    for connection in connections:
        response = connection.receive(timeout_s=client.settings.request_timeout_s + max_wait_ms / 1000)
        for topic in response.responses:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic, row.partition_index)
                if partition not in positions:
                    raise ClientError(f"{connection.name} answered for {partition}, which it was not asked for")
                fetched.append(_read(partition, row, positions[partition], isolation_level))
    return fetched


def _by_leader(
    client: Client, positions: Mapping[TopicPartition, int]
) -> tuple[dict[int, list[TopicPartition]], list[Fetched]]:
    cluster = client.metadata(sorted({partition.topic for partition in positions}))
    led: dict[int, list[TopicPartition]] = {}
    lost = []
    for partition, offset in positions.items():
        leader = cluster.leader(partition)
        if leader != NO_LEADER:
            led.setdefault(leader, []).append(partition)
            continue
        is_known = cluster.partition(partition) is not None
        code = ErrorCode.LEADER_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        lost.append(Fetched(partition, [], offset, code))
    return led, lost


def _request(positions: Mapping[TopicPartition, int], max_wait_ms: int, isolation_level: int) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for (name, index), offset in positions.items():
        topic = topics.setdefault(name, FetchTopic(topic=name, partitions=[]))
        row = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=MAX_PARTITION_BYTES)
        topic.partitions.append(row)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=MIN_BYTES,
        max_bytes=MAX_BYTES,
        isolation_level=isolation_level,
        topics=list(topics.values()),
    )


def _read(partition: TopicPartition, row: Any, position: int, isolation_level: int) -> Fetched:
    if row.error_code or not row.records:
        return Fetched(partition, [], position, row.error_code)
    aborted = _Aborted(row.aborted_transactions if isolation_level == READ_COMMITTED else None)
    records: list[Consumed] = []
    next_offset = position
    try:
        for start, header in iter_batches(row.records):
            if not check_crc(row.records, start, header):
                raise RecordsError(f"the checksum of the batch at offset {header.base_offset} is wrong")
            next_offset = max(next_offset, header.next_offset)
            if not aborted.hides(header, row.records, start):
                kind, epoch = header.timestamp_type, header.partition_leader_epoch
                records += (
                    Consumed(partition, record, kind, epoch)
                    for record in iter_records(row.records, start, header)
                    if record.offset >= position
                )
    except RecordsError as error:
        raise ClientError(f"{partition} cannot be read at offset {next_offset}: {error}") from error
    return Fetched(partition, records, next_offset, 0)


class _Aborted:
    """Which batches of a fetch belong to transactions that were aborted. Source: CompletedFetch."""

    def __init__(self, transactions: list[Any] | None) -> None:
        self._to_come = sorted(transactions or (), key=lambda row: row.first_offset)
        self._open: set[int] = set()  # producer ids whose batches are of an aborted transaction; changed by hides
        self._is_needed = transactions is not None

    def hides(self, header: BatchHeader, data: Any, start: int) -> bool:
        """Tell whether a consumer must not see a batch; they come in order."""
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._open.add(self._to_come.pop(0).producer_id)
        if header.is_control:
            if self._is_needed and _is_abort(iter_records(data, start, header)):
                self._open.discard(header.producer_id)
            return True
        return self._is_needed and header.is_transactional and header.producer_id in self._open


def _is_abort(records: Iterator[Record]) -> bool:
    return any(control_type_of(record.key) == ControlType.ABORT for record in records)
