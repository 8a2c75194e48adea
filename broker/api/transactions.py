"""AddPartitionsToTxn (key 24). Served: 0 to 5. AddOffsetsToTxn (25). Served: 0 to 4. EndTxn (26). Served: 0 to 5.

- AddPartitionsToTxn: v2 PRODUCER_FENCED, which older clients are told as INVALID_PRODUCER_EPOCH; v3 flexible; v4 many
  transactions, and verification only: for brokers.
- AddOffsetsToTxn: v2 PRODUCER_FENCED; v3 flexible.
- EndTxn: v2 PRODUCER_FENCED; v3 flexible; v5 the end bumps the epoch, and the answer carries the new one (KIP-890).
- v4 of the last two and v5 of the first add TRANSACTION_ABORTABLE to what may be answered.
- One partition that does not exist spoils the whole addition: it gets its error, all others OPERATION_NOT_ATTEMPTED.
- Difference from the reference: AddOffsetsToTxn creates the offsets topic if need be.

Source: KafkaApis; KIP-98, KIP-588, KIP-890.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from broker.api.errors import known_code
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError, CoordinatorNotAvailable
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.internal_topics import GROUP_METADATA_TOPIC
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.state import EPOCH_BUMPING_VERSION, Producer
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from storage.types import TopicPartition

FIRST_WITH_PRODUCER_FENCED = 2
FIRST_ADDITION_BY_BROKERS = 4
FIRST_END_WITH_BUMP = 5

TRANSACTIONS_PER_TURN = 64
"""After so many in a row others have the loop, even where no disk is waited for."""


class TransactionsApi:
    """What producers ask about their transactions."""

    def __init__(
        self, coordinator: TransactionCoordinator, groups: GroupCoordinator, image: Callable[[], ClusterImage]
    ) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, self.add_partitions_to_txn),
            Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, self.add_offsets_to_txn),
            Route(ApiKey.END_TXN, 0, 5, self.end_txn),
        )

    # -- partitions -------------------------------------------------------------------------------------------------

    async def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse:
        """Add partitions to transactions, or tell whether they are in them."""
        version = context.api_version
        if version >= FIRST_ADDITION_BY_BROKERS:
            results = []
            for number, asked in enumerate(request.transactions, start=1):
                topic_results = _topic_results(await self._add(asked, version))
                results.append(
                    AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topic_results)
                )
                if not number % TRANSACTIONS_PER_TURN:
                    await asyncio.sleep(0)
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            verify_only=False,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(await self._add(only, version)))

    async def _add(self, asked: AddPartitionsToTxnTransaction, version: int) -> dict[TopicPartition, ErrorCode]:
        partitions = _partitions(asked.topics)
        codes = self._missing(partitions)
        if codes:
            return {tp: codes.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in partitions}
        if asked.verify_only:
            return await self._coordinator.verify(
                asked.transactional_id, asked.producer_id, asked.producer_epoch, partitions, add=False
            )
        try:
            await self._coordinator.add_partitions(
                asked.transactional_id,
                Producer(asked.producer_id, asked.producer_epoch),
                partitions,
                client_version=EPOCH_BUMPING_VERSION if version >= FIRST_ADDITION_BY_BROKERS else 0,
            )
        except CoordinatorError as refusal:
            return dict.fromkeys(partitions, code_for(refusal, version, FIRST_WITH_PRODUCER_FENCED))
        return dict.fromkeys(partitions, ErrorCode.NONE)

    def _missing(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        image = self._image()
        return {tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for tp in partitions if image.partition(tp) is None}

    async def add_offsets_to_txn(
        self, request: AddOffsetsToTxnRequest, context: RequestContext
    ) -> AddOffsetsToTxnResponse:
        """Add the partition that keeps a group's offsets to a transaction."""
        try:
            if not await self._groups.ensure_topic():
                raise CoordinatorNotAvailable
            partition = TopicPartition(GROUP_METADATA_TOPIC, self._groups.partition_of(request.group_id))
            producer = Producer(request.producer_id, request.producer_epoch)
            await self._coordinator.add_partitions(request.transactional_id, producer, (partition,))
        except CoordinatorError as refusal:
            code = code_for(refusal, context.api_version, FIRST_WITH_PRODUCER_FENCED)
            return AddOffsetsToTxnResponse(error_code=code)
        return AddOffsetsToTxnResponse()

    # -- end --------------------------------------------------------------------------------------------------------

    async def end_txn(self, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
        """Commit or abort a transaction; answered once that is decided for good."""
        version = context.api_version
        try:
            after = await self._coordinator.end(
                request.transactional_id,
                Producer(request.producer_id, request.producer_epoch),
                is_commit=request.committed,
                client_version=EPOCH_BUMPING_VERSION if version >= FIRST_END_WITH_BUMP else 0,
            )
        except CoordinatorError as refusal:
            return EndTxnResponse(error_code=code_for(refusal, version, FIRST_WITH_PRODUCER_FENCED))
        return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)


def code_for(refusal: CoordinatorError, version: int, first_with_fenced: int) -> ErrorCode:
    """Give the code of a refusal in the words of a client's version."""
    code = known_code(refusal)
    if code is ErrorCode.PRODUCER_FENCED and version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Give the partitions asked for, each once, in the order of the request."""
    return list(dict.fromkeys(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions))


def _topic_results(codes: dict[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, number), code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        by_topic.setdefault(topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results) for topic, results in by_topic.items()
    ]
