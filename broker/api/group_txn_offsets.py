"""TxnOffsetCommit (key 28). Served: 0 to 5.

- v2 leader epochs; v3 flexible, members and generations (KIP-447); v4 TRANSACTION_ABORTABLE; v5 the partition of the
  group is put into the transaction by the broker (KIP-890).
- Before v2 a coordinator that loads says that it is not available: producers of that time know nothing else.

Partitions that do not exist are refused one by one; the others are stored together and count once the transaction has
committed. Source: KafkaApis.handleTxnOffsetCommitRequest, OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.api.errors import known_code
from broker.api.group_offsets import offset_entry
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.shard import NO_RETENTION_TIME, CommitRequest, OffsetEntry
from broker.metadata.image import ClusterImage
from broker.partition.verification import Flow, Writer
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_VERSION_THAT_KNOWS_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5


class GroupTxnOffsetsApi:
    """Commits of offsets inside transactions."""

    def __init__(self, coordinator: GroupCoordinator, image: Callable[[], ClusterImage]) -> None:
        self._coordinator = coordinator
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5, self.txn_offset_commit),)

    async def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> TxnOffsetCommitResponse:
        """Store a group's offsets in a transaction."""
        entries: list[OffsetEntry] = []
        # The answers that wait for the coordinator, in the order of the entries.
        waiting: list[TxnOffsetCommitResponsePartition] = []
        topics = [self._check_topic(topic, entries, waiting) for topic in request.topics]
        if entries:
            context.outlives_peer = True
            codes = await self._commit(request, context.api_version, entries)
            for answer, code in zip(waiting, codes, strict=True):
                answer.error_code = code
        return TxnOffsetCommitResponse(topics=topics)

    def _check_topic(
        self,
        asked: TxnOffsetCommitRequestTopic,
        entries: list[OffsetEntry],
        waiting: list[TxnOffsetCommitResponsePartition],
    ) -> TxnOffsetCommitResponseTopic:
        topic = self._image().topics_by_name.get(asked.name)
        answers: list[TxnOffsetCommitResponsePartition] = []
        for partition in asked.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            waiting.append(answer)
            entries.append(offset_entry(topic, partition))
        return TxnOffsetCommitResponseTopic(name=asked.name, partitions=answers)

    async def _commit(
        self, request: TxnOffsetCommitRequest, version: int, entries: list[OffsetEntry]
    ) -> Sequence[ErrorCode]:
        commit = CommitRequest(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            retention_time_ms=NO_RETENTION_TIME,
            entries=entries,
        )
        writer = Writer(request.transactional_id, request.producer_id, request.producer_epoch, _flow_of(version))
        try:
            return await self._coordinator.commit_offsets_in_transaction(commit, writer)
        except CoordinatorError as refusal:
            code = known_code(refusal)
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_THAT_KNOWS_LOADING:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return [code] * len(entries)


def _flow_of(version: int) -> Flow:
    if version >= FIRST_VERSION_THAT_ADDS:
        return Flow.ADDS
    return Flow.ABORTABLE if version == FIRST_VERSION_WITH_ABORTABLE else Flow.ADDED_BEFORE
