"""Pages of DescribeTopicPartitions: which partitions an answer holds and where the next one goes on; pure.

Topics come sorted by name. An answer holds at most the asked number of partitions; when more follow, the next cursor
names the first one left out. Unknown names are reported once, on the page they would stand on.
Source: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse; KIP-966.
"""

from __future__ import annotations

from broker.api.topic_listing import TOPIC_AUTHORIZED_OPERATIONS
from broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from broker.metadata.names import INTERNAL_TOPICS
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)
from storage.segment.names import is_legal_topic


def describe_topic_partitions(
    image: ClusterImage, request: DescribeTopicPartitionsRequest, *, max_partitions: int
) -> DescribeTopicPartitionsResponse:
    """Answer one page."""
    lists_all = not request.topics
    names = sorted(image.topics_by_name if lists_all else {topic.name for topic in request.topics})
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0 or not (lists_all or cursor.topic_name in names):
            return _refused(names if not lists_all else [cursor.topic_name])
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, max_partitions))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if room == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics_by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        first = _first_partition(cursor, name)
        taken = min(room, max(0, len(topic.partitions) - first))
        response.topics.append(_described(image, topic, first, taken))
        room -= taken
        if first + taken < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=first + taken)
            break
    return response


def _first_partition(cursor: RequestCursor | None, name: str) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _described(image: ClusterImage, topic: TopicImage, first: int, count: int) -> DescribeTopicPartitionsResponseTopic:
    live = {broker.broker_id for broker in image.active_brokers()}
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(image, number, topic.partitions[number], live) for number in range(first, first + count)
        ],
        topic_authorized_operations=TOPIC_AUTHORIZED_OPERATIONS,
    )


def _partition(
    image: ClusterImage, number: int, partition: PartitionImage, live: set[int]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,  # also without a leader, as in Kafka: the leader id tells that
        partition_index=number,
        leader_id=partition.leader if partition.leader in live else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=image.offline_replicas(partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    legal = is_legal_topic(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION, name=name
    )


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    """Answer a cursor that makes no sense: the layout has no error of the whole request, so each topic bears it."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name) for name in names]
    )
