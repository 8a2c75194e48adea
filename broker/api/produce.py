"""Produce (key 0). Served: 3 to 13; 0 to 2 are advertised and refused (see Route).

- v3 magic 2 batches with a transactional id; v5 log start offset; v7 zstd; v8 record errors; v9 flexible; v10 current
  leader and node endpoints; v11, v12 transaction flows; v13 topic ids.
- acks=0 answers nothing; a failure there ends the connection, so that the producer asks for metadata anew.
- A batch whose append made a flush due (flush.messages, odradek.log.flush.on.append) is answered after that flush.
- A scheduled topic refuses batches due too far ahead, or out of order where they must not be (INVALID_TIMESTAMP).
- The first batch of a transaction on a partition waits for the word of the transaction coordinator (KIP-890).

Partitions stand alone: one that fails does not undo its neighbours. Source: KafkaApis.handleProduceRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from broker.api.errors import code_of
from broker.api.leaders import Leaders
from broker.api.produce_transactions import (
    LOW_ATTRIBUTES_AT,
    ManyProducers,
    flow_of,
    is_transactional,
    refusal_of,
    transaction_of,
)
from broker.api.produce_unpacking import Unpacking
from broker.api.route import LONG_WAY, Plain, RequestContext, Route
from broker.metadata.image import ClusterImage
from broker.partition.errors import UnknownTopicId
from broker.partition.manager import PartitionManager
from broker.partition.partition import Partition
from broker.partition.verification import TransactionVerifier, Verified
from broker.runtime.pools import Pools
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.fast.produce import IDS_SINCE, PlainRequest, PlainTopic, read_plain, write_answer
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import CODEC_MASK, TRANSACTIONAL_BIT
from protocol.records.inflater import Inflater
from storage.errors import InvalidRecord, RecordsRefused
from storage.log.append import AppendResult
from storage.log.validator import ValidatedBatch
from storage.types import TopicPartition

FIRST_VERSION_WITH_LEADERS: Final = 10
LEGAL_ACKS: Final = (-1, 0, 1)
INTERNAL_TOPICS_CLIENT_ID: Final = "__admin_client"
"""The one client id that may write into internal topics, as in Kafka."""

Validated = ValidatedBatch | Exception
"""What the check of a batch gave: a batch to store, or the reason why not."""


_NOT_APPENDED: Final = AppendResult(-1, -1, -1, -1, is_duplicate=False)
_NOTHING_TO_VERIFY: Mapping[TopicPartition, Verified] = {}


class _Refusal(NamedTuple):
    """What every partition of a request is told."""

    code: ErrorCode
    message: str


_MANY_PRODUCERS: Final = _Refusal(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "All transactional batches of a request must come from one producer."
)
_NO_TRANSACTIONAL_ID: Final = _Refusal(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "A transactional batch must come in a request that names its transactional id.",
)


class _Held(NamedTuple):
    """An answer that waits for a flush: where it stands among those of its topic, and what it waits for."""

    answers: list[PartitionProduceResponse]
    position: int
    partition: Partition
    end_offset: int


class ProduceApi:
    """Appends what producers send."""

    def __init__(
        self,
        partitions: PartitionManager,
        image: Callable[[], ClusterImage],
        leaders: Leaders,
        pools: Pools,
        verifier: TransactionVerifier,
        internal_topics: frozenset[str],
    ) -> None:
        self._partitions = partitions
        self._image = image
        self._leaders = leaders
        self._pools = pools
        self._verifier = verifier
        self._internal_topics = internal_topics
        self._inflater = Inflater()

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.PRODUCE, 0, 13, self.produce, Plain(read_plain, self.produce_plain), served_from=3),)

    async def produce(self, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
        """Append every batch of the request."""
        acks, version = request.acks, context.api_version
        refusal = self._refuse(request)
        failed = owns_records = False
        topics: list[TopicProduceResponse] = []
        held: list[_Held] = []
        unpacking = Unpacking(self._inflater)
        verified = _NOTHING_TO_VERIFY
        if request.transactional_id is not None and refusal is None:
            try:
                transaction = transaction_of(request, version, self._look, self._verifier.must_ask)
            except ManyProducers:
                refusal = _MANY_PRODUCERS
            else:
                if transaction is not None and transaction.beginning:
                    _own_records(request)
                    owns_records = context.outlives_peer = True
                    verified = await self._verifier.verify(*transaction)
        for topic in request.topic_data:
            name: str | None = topic.name
            if version >= IDS_SINCE:
                found = self._image().topics_by_id.get(topic.topic_id)
                name = found.name if found is not None else None
            answers: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                partition = self._partitions.find((name, data.index)) if name is not None else None
                validated: Validated | None = None
                if refusal is None and partition is not None:
                    is_ready, inflated = unpacking.look(data.records, partition)
                    if inflated is not None:
                        assert isinstance(data.records, memoryview), "what was inflated came as bytes"
                        validated = _outcome(partition.validation(data.records, version, inflated))
                    if not is_ready or not partition.has_room:
                        if not owns_records:
                            _own_records(request)
                            owns_records = context.outlives_peer = True
                        if not is_ready:
                            validated = await self._validate_beside_the_loop(partition, data.records, version)
                        await partition.room()
                        partition = self._partitions.find(partition.tp)  # it may have gone meanwhile
                if refusal is not None:
                    answer = _failed(data.index, *refusal)
                else:
                    answer = self._append(name, partition, data, validated, verified, acks, context)
                if answer.error_code:
                    failed = True
                elif partition is not None and not partition.is_immediate:
                    held.append(_Held(answers, len(answers), partition, partition.log.log_end_offset))
                answers.append(answer)
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        for one in held if acks else ():
            failed |= not await self._is_durable(one, context)
        return self._respond(topics, acks, failed, context)

    def produce_plain(self, request: PlainRequest, context: RequestContext) -> Any:
        """Serve a request of the usual kind at once; of any other nothing is appended, and `produce` gets it."""
        version, correlation_id, _, acks, topics = request
        found = self._usual(topics, version)
        if not found or acks not in LEGAL_ACKS:
            return LONG_WAY
        results: list[AppendResult] = []
        failures: dict[int, Exception] = {}
        for partition, records, inflated in found:
            validated = None
            try:
                if inflated is not None:
                    validated = partition.validation(records, version, inflated)()
                result = partition.append(records, acks=acks, request_version=version, validated=validated)
                results.append(result)
            except Exception as failure:
                self._partitions.traffic.refused_batch(partition.tp[0], failure)
                failures[len(results)] = failure
                results.append(_NOT_APPENDED)
        if failures or context.meter is not None:
            answers = [
                self._failure(*partition.tp, failures[at], context)
                if at in failures
                else _succeeded(partition.tp.partition, results[at])
                for at, (partition, _, _) in enumerate(found)
            ]
            return self._respond(_by_topic(topics, answers), acks, bool(failures), context)
        return write_answer(version, correlation_id, topics, results) if acks else None

    def _usual(self, topics: list[PlainTopic], version: int) -> list[tuple[Partition, memoryview, bytes | None]]:
        """Find the partitions of a request with their batches; none when one of them needs more than an append."""
        found: list[tuple[Partition, memoryview, bytes | None]] = []
        unpacking: Unpacking | None = None
        for name, topic_id, _, batches in topics:
            if version >= IDS_SINCE:
                topic = self._image().topics_by_id.get(topic_id)
                if topic is None:
                    return []
                name = topic.name
            if name in self._internal_topics:
                return []
            for index, records in batches:
                partition = self._partitions.find((name, index))
                attributes = records[LOW_ATTRIBUTES_AT]
                if partition is None or not partition.is_immediate or attributes & TRANSACTIONAL_BIT:
                    return []
                inflated = None
                if attributes & CODEC_MASK or partition.may_compress:
                    unpacking = unpacking or Unpacking(self._inflater)
                    is_ready, inflated = unpacking.look(records, partition)
                    if not is_ready:
                        return []
                found.append((partition, records, inflated))
        return found

    def _respond(
        self, topics: list[TopicProduceResponse], acks: int, failed: bool, context: RequestContext
    ) -> ProduceResponse | None:
        if context.meter is not None:
            context.meter.produced(is_answered=acks != 0)
        if acks == 0:
            context.close_after = failed
            return None
        response = ProduceResponse(responses=topics)
        if failed and context.api_version >= FIRST_VERSION_WITH_LEADERS:
            leaders = {
                answer.current_leader.leader_id
                for topic_answer in topics
                for answer in topic_answer.partition_responses
                if answer.current_leader.leader_id >= 0
            }
            response.node_endpoints = self._leaders.fill(leaders, NodeEndpoint, context)
        return response

    def _refuse(self, request: ProduceRequest) -> _Refusal | None:
        """Give the error that holds for every partition of the request, if there is one."""
        if request.acks not in LEGAL_ACKS:
            reason = f"acks must be -1 (all), 0 or 1, but it is {request.acks}."
            return _Refusal(ErrorCode.INVALID_REQUIRED_ACKS, reason)
        if request.transactional_id is None:
            for topic in request.topic_data:
                for data in topic.partition_data:
                    if is_transactional(data.records):
                        return _NO_TRANSACTIONAL_ID
        return None

    async def _validate_beside_the_loop(self, partition: Partition, records: Any, version: int) -> Validated:
        """Unpack and check a batch in a thread; what it is refused for is raised where it is appended."""
        try:
            return await self._pools.cpu(partition.validation(records, version))
        except Exception as failure:
            return failure

    async def _is_durable(self, held: _Held, context: RequestContext) -> bool:
        """Wait for a due flush; where it does not come, the answer becomes the reason."""
        try:
            await held.partition.durable(held.end_offset)
        except Exception as failure:
            topic, index = held.partition.tp
            held.answers[held.position] = self._failure(topic, index, failure, context)
            return False
        return True

    def _append(
        self,
        topic: str | None,
        partition: Partition | None,
        data: PartitionProduceData,
        validated: Validated | None,
        verified: Mapping[TopicPartition, Verified],
        acks: int,
        context: RequestContext,
    ) -> PartitionProduceResponse:
        index = data.index
        try:
            if partition is None:
                partition = self._find(topic, index)
            if topic in self._internal_topics and context.client_id != INTERNAL_TOPICS_CLIENT_ID:
                return _failed(
                    index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients are not allowed to write to {topic}."
                )
            records = data.records
            if not isinstance(records, memoryview):
                raise InvalidRecord("The request has no records for the partition")
            verification = verified.get(partition.tp) if verified else None
            if isinstance(verification, ErrorCode):
                return _failed(index, *refusal_of(verification, flow_of(context.api_version)))
            if isinstance(validated, Exception):
                raise validated
            version = context.api_version
            if verification is None:
                result = partition.append(records, acks=acks, request_version=version, validated=validated)
            else:
                with partition.log.transactions.in_hand(verification):
                    result = partition.append(records, acks=acks, request_version=version, validated=validated)
        except Exception as failure:
            self._partitions.traffic.refused_batch(topic, failure)
            return self._failure(topic, index, failure, context)
        return _succeeded(index, result)

    def _look(self, topic: TopicProduceData, index: int, version: int) -> Partition | None:
        named = self._image().topics_by_id.get(topic.topic_id) if version >= IDS_SINCE else topic
        return self._partitions.find((named.name, index)) if named is not None else None

    def _find(self, topic: str | None, index: int) -> Partition:
        if topic is None:
            raise UnknownTopicId
        return self._partitions.get(topic, index)

    def _failure(
        self, topic: str | None, index: int, failure: Exception, context: RequestContext
    ) -> PartitionProduceResponse:
        code = code_of(failure, context)
        answer = _failed(index, code, str(failure) or code.text)
        if isinstance(failure, RecordsRefused):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
                for error in failure.record_errors
            ]
        leader = self._leaders.current(topic, index, failure)
        if leader is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        return answer


def _outcome(check: Callable[[], ValidatedBatch]) -> Validated:
    try:
        return check()
    except Exception as failure:
        return failure


def _own_records(request: ProduceRequest) -> None:
    """Copy every batch out of the frame: once the handler has suspended, the next frame may lie in its buffer."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))


def _by_topic(topics: list[PlainTopic], answers: list[PartitionProduceResponse]) -> list[TopicProduceResponse]:
    """Part the answers to a plain request by its topics."""
    following = iter(answers)
    return [
        TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[next(following) for _ in batches])
        for name, topic_id, _, batches in topics
    ]


def _succeeded(index: int, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )


def _failed(index: int, code: ErrorCode, message: str) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        error_message=message,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
    )
