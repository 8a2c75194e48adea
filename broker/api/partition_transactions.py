"""DescribeProducers (key 61, version 0) and WriteTxnMarkers (key 27, 1 to 2): transactions as partitions know them.

- DescribeProducers: every producer a partition remembers, with the start of its open transaction. Difference from the
  reference: a partition that is named several times is described once, since its answer may be a million times as long.
- WriteTxnMarkers: v2 the version of the transaction, by which the epoch of the marker is judged. It is for coordinators
  on other brokers, and for an operator who ends a transaction that nobody else will.

Markers of one request are written one after the other. Source: KafkaApis, ReplicaManager.activeProducerState; KIP-664.
"""

from __future__ import annotations

import asyncio
import logging

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.names import check_topic_name
from broker.partition.manager import PartitionManager
from broker.partition.markers import MarkerWriter
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from storage.producers.entry import ProducerEntry
from storage.types import TopicPartition

logger = logging.getLogger(__name__)

MARKERS_PER_TURN = 64
"""After so many in a row others have the loop, even where no disk is waited for."""


class PartitionTransactionsApi:
    """Shows and ends transactions partition by partition."""

    def __init__(self, partitions: PartitionManager, markers: MarkerWriter) -> None:
        self._partitions = partitions
        self._markers = markers

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.WRITE_TXN_MARKERS, 1, 2, self.write_txn_markers, is_exempt=True),
            Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, self.describe_producers),
        )

    # --- producers ---

    async def describe_producers(
        self, request: DescribeProducersRequest, context: RequestContext
    ) -> DescribeProducersResponse:
        """Name the producers that partitions remember."""
        asked: dict[str, dict[int, None]] = {}
        for topic in request.topics:
            asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        return DescribeProducersResponse(
            topics=[
                TopicResponse(name=name, partitions=[self._describe(name, index, context) for index in indexes])
                for name, indexes in asked.items()
            ]
        )

    def _describe(self, topic: str, index: int, context: RequestContext) -> PartitionResponse:
        try:
            check_topic_name(topic)
            partition = self._partitions.get(topic, index)
            partition.ensure_leader()
            producers = [_producer_state(entry) for entry in partition.log.active_producers()]
        except Exception as failure:
            code = code_of(failure, context)
            return PartitionResponse(partition_index=index, error_code=code, error_message=str(failure) or None)
        return PartitionResponse(partition_index=index, active_producers=producers)

    # --- markers ---

    async def write_txn_markers(
        self, request: WriteTxnMarkersRequest, context: RequestContext
    ) -> WriteTxnMarkersResponse:
        """End transactions; the answers of one producer stand together."""
        context.outlives_peer = True
        codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
        count = 0
        for marker in request.markers:
            told = codes.setdefault(marker.producer_id, {})
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    tp = TopicPartition(topic.name, index)
                    told[tp] = await self._write(marker, tp, context)
                    count += 1
                    if not count % MARKERS_PER_TURN:
                        await asyncio.sleep(0)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(told))
                for producer_id, told in codes.items()
            ]
        )

    async def _write(self, marker: WritableTxnMarker, tp: TopicPartition, context: RequestContext) -> ErrorCode:
        try:
            await self._markers.write_marker(
                tp,
                marker.producer_id,
                marker.producer_epoch,
                is_commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
        except Exception as failure:
            return code_of(failure, context)
        logger.info(
            "transaction ended by hand partition=%s producer_id=%d producer_epoch=%d result=%s client=%s",
            tp,
            marker.producer_id,
            marker.producer_epoch,
            "commit" if marker.transaction_result else "abort",
            context.client_host,
        )
        return ErrorCode.NONE


def _producer_state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )


def _by_topic(codes: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return [WritableTxnMarkerTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
