"""OffsetDelete (key 47). Served: 0.

- What was never committed is deleted already; topics without partitions are left out of the answer.

Source: KIP-496; KafkaApis.handleOffsetDeleteRequest, OffsetMetadataManager.deleteOffsets.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.api.errors import known_code
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.metadata.image import ClusterImage
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from storage.types import TopicPartition


class OffsetDeleteApi:
    """Deletes committed offsets of a group."""

    def __init__(self, coordinator: GroupCoordinator, image: Callable[[], ClusterImage]) -> None:
        self._coordinator = coordinator
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.OFFSET_DELETE, 0, 0, self.offset_delete),)

    async def offset_delete(self, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
        """Delete offsets of partitions that no member of the group subscribes to."""
        image = self._image()
        topics = [topic for topic in request.topics if topic.partitions]
        wanted = [(topic.name, one.partition_index) for topic in topics for one in topic.partitions]
        known = [tp for tp in wanted if image.partition(TopicPartition(*tp)) is not None]
        try:
            codes = dict(zip(known, await self._coordinator.delete_offsets(request.group_id, known), strict=True))
        except CoordinatorError as refusal:
            return OffsetDeleteResponse(error_code=known_code(refusal))
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=one.partition_index,
                            error_code=codes.get(
                                (topic.name, one.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                            ),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )
