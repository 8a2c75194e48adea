"""What a produce request says of its transaction: who writes, how its version goes about it, what is to be verified.

Answers of the transaction coordinator that only say "not now" become NOT_ENOUGH_REPLICAS, which every client takes for
a reason to send the same again without asking for metadata. Source: ReplicaManager.handleProduceAppend; KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.partition.partition import Partition
from broker.partition.verification import Flow, Writer
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import HEADER, HEADER_SIZE, MAGIC_V2, TRANSACTIONAL_BIT, header_from
from storage.types import TopicPartition

FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS = 12

LOW_ATTRIBUTES_AT = 22

Find = Callable[[TopicProduceData, int, int], Partition | None]
"""Finds a partition by the topic as the request names it, its number, and the request's version."""

_NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class ProducedInTransaction(NamedTuple):
    """The transactional part of a request: who writes, and the partitions where that transaction has not begun yet."""

    writer: Writer
    beginning: dict[TopicPartition, int]
    """With the first sequence of the batch for each."""


class ManyProducers(Exception):
    """The batches of one transactional request name more than one producer."""


def flow_of(version: int) -> Flow:
    """Tell how a producer of this request version goes about its transactions."""
    if version >= FIRST_VERSION_THAT_ADDS:
        return Flow.ADDS
    return Flow.ABORTABLE if version == FIRST_VERSION_WITH_ABORTABLE else Flow.ADDED_BEFORE


def transaction_of(
    request: ProduceRequest, version: int, find: Find, must_ask: Callable[[Writer, Partition], bool]
) -> ProducedInTransaction | None:
    """Read a request's transaction, None when no batch belongs to one. Raises: ManyProducers."""
    writer: Writer | None = None
    beginning: dict[TopicPartition, int] = {}
    for topic, data in _transactional(request):
        header = header_from(HEADER.unpack_from(data.records))  # type: ignore[arg-type]  # a view with a whole header
        if header.magic != MAGIC_V2 or header.producer_id < 0:
            continue
        ours = Writer(request.transactional_id or "", header.producer_id, header.producer_epoch, flow_of(version))
        if writer not in (None, ours):
            raise ManyProducers
        writer = ours
        partition = find(topic, data.index, version)
        if partition is not None and must_ask(ours, partition):
            beginning.setdefault(partition.tp, header.base_sequence)
    return None if writer is None else ProducedInTransaction(writer, beginning)


def _transactional(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if is_transactional(data.records):
                yield topic, data


def is_transactional(records: object) -> bool:
    """Tell it of a batch; False when there is no complete header, which the log refuses later."""
    return (
        isinstance(records, memoryview)
        and len(records) >= HEADER_SIZE
        and bool(records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_BIT)
    )


def refusal_of(code: ErrorCode, flow: Flow) -> tuple[ErrorCode, str]:
    """Give the code and the message for a partition whose transaction could not be verified."""
    if code in _NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and flow is not Flow.ADDS):
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ErrorCode.NOT_ENOUGH_REPLICAS, reason
    if code is ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    return code, code.text
