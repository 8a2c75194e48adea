"""AlterPartitionReassignments (45) and ListPartitionReassignments (46). Served: 0 to 1, and 0.

- AlterPartitionReassignments: v1 may insist that the number of replicas stays.
- What is accepted is done when it is answered, so `timeout_ms` is not needed to wait for it.

Source: KIP-455, KIP-860; ControllerApis, QuorumController.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.reassignments import OngoingReassignment, Reassignment, ongoing_reassignments
from broker.metadata.controller.run import Controller
from broker.metadata.errors import MetadataError
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ReassignmentsApi:
    """Changes the replicas of partitions, and tells which changes are under way."""

    def __init__(self, controller: Controller, image: Callable[[], ClusterImage]) -> None:
        self._controller = controller
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, self.alter_partition_reassignments),
            Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, self.list_partition_reassignments),
        )

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        """Change the replicas of partitions, or cancel a change."""
        if not request.topics:
            return AlterPartitionReassignmentsResponse(error_message="")
        targets = [
            Reassignment(topic.name, asked.partition_index, None if asked.replicas is None else tuple(asked.replicas))
            for topic in request.topics
            for asked in topic.partitions
        ]
        may_change_factor = request.allow_replication_factor_change
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change_factor, error_message=None
        )
        try:
            results = iter(await self._controller.reassign(targets, may_change_factor=may_change_factor))
        except MetadataError as refusal:
            response.error_code, response.error_message = code_of(refusal, context), str(refusal)
            return response
        response.responses = [
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_told(asked.partition_index, next(results), context) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
        return response

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        """List the reassignments under way of some partitions, or all."""
        asked = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
        ongoing = ongoing_reassignments(self._image(), asked)
        return ListPartitionReassignmentsResponse(error_message=None, topics=_by_topic(ongoing))


def _told(number: int, error: MetadataError | None, context: RequestContext) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=number, error_message=None)
    if error is not None:
        result.error_code, result.error_message = code_of(error, context), str(error) or None
    return result


def _by_topic(ongoing: Iterable[OngoingReassignment]) -> list[OngoingTopicReassignment]:
    topics: dict[str, OngoingTopicReassignment] = {}
    for one in ongoing:
        topic = topics.setdefault(one.topic, OngoingTopicReassignment(name=one.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=one.partition,
                replicas=list(one.image.replicas),
                adding_replicas=list(one.image.adding_replicas),
                removing_replicas=list(one.image.removing_replicas),
            )
        )
    return list(topics.values())
