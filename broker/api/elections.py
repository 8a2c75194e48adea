"""ElectLeaders (key 43). Served: 0 to 2.

- v1 the type of election, and an error of the whole request; v2 flexible.
- Asked about all partitions, those that need no election are left out, but their topics are named.
- What is elected is on disk when it is answered, so `timeout_ms` is not needed to wait for it.

Source: KIP-460; ReplicationControlManager.electLeaders, ElectLeadersRequest.getErrorResponse.
"""

from __future__ import annotations

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.elections import ElectionResult, all_partitions, election_type, plan_elections
from broker.metadata.controller.run import Controller
from broker.metadata.errors import ElectionNotNeeded, MetadataError
from protocol.api_keys import ApiKey
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from storage.types import TopicPartition


class ElectionsApi:
    """Elects leaders of partitions."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (Route(ApiKey.ELECT_LEADERS, 0, 2, self.elect_leaders),)

    async def elect_leaders(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        """Elect leaders of some partitions, or of all that could have another one."""
        asked = request.topic_partitions
        if asked is None:
            return await self._elect_everywhere(request, context)
        if not asked:
            return ElectLeadersResponse()
        partitions = [TopicPartition(topic.topic, number) for topic in asked for number in topic.partitions]
        try:
            kind = election_type(request.election_type)
            results = await self._controller.execute(lambda image: plan_elections(image, kind, partitions))
        except MetadataError as refusal:
            results = [ElectionResult(tp, refusal) for tp in partitions]
            response = ElectLeadersResponse(error_code=code_of(refusal, context))
        else:
            response = ElectLeadersResponse()
        rows = iter(results)
        response.replica_election_results = [
            ReplicaElectionResult(
                topic=topic.topic, partition_result=[_told(next(rows), context) for _ in topic.partitions]
            )
            for topic in asked
        ]
        return response

    async def _elect_everywhere(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        try:
            kind = election_type(request.election_type)
            results = await self._controller.execute(
                lambda image: plan_elections(image, kind, list(all_partitions(image)))
            )
        except MetadataError as refusal:
            return ElectLeadersResponse(error_code=code_of(refusal, context))
        topics: dict[str, ReplicaElectionResult] = {}
        for result in results:
            name = result.partition.topic
            topic = topics.setdefault(name, ReplicaElectionResult(topic=name))
            if not isinstance(result.error, ElectionNotNeeded):
                topic.partition_result.append(_told(result, context))
        return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _told(result: ElectionResult, context: RequestContext) -> PartitionResult:
    told = PartitionResult(partition_id=result.partition.partition, error_message=None)
    if result.error is not None:
        told.error_code, told.error_message = code_of(result.error, context), str(result.error)
    return told
