"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37). Served: 2 to 7, 1 to 6, 0 to 3.

- CreateTopics: v4 defaults by -1; v5 flexible, the new topic's counts and effective configs; v7 topic id.
- DeleteTopics: v4 flexible; v5 error message; v6 by name or id.
- CreatePartitions: v2 flexible.
- CreateTopics v6, DeleteTopics v5, CreatePartitions v3: what exceeds a quota is refused; before, it only throttles.
- A change is on disk and visible in Metadata when its answer is sent, so `timeout_ms` is not needed to wait for it.

Topics stand alone: one that is refused does not hold up its neighbours. Source: ControllerApis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.partitions import NewPartitions
from broker.metadata.controller.plan import Charge, uncharged
from broker.metadata.controller.run import Controller
from broker.metadata.controller.topics import CreateTopicResult, NewTopic, TopicToDelete
from broker.metadata.errors import MetadataError, TopicDeletionDisabled
from config.dynamic import ConfigEntry
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

FIRST_DELETE_VERSION_WITH_IDS = 6
FIRST_DELETE_VERSION_WITH_DISABLED = 3

FIRST_STRICT_CREATE_VERSION = 6
FIRST_STRICT_DELETE_VERSION = 5
FIRST_STRICT_CREATE_PARTITIONS_VERSION = 3
"""From these on clients know the error of an exceeded quota."""

DescribeTopic = Callable[[Mapping[str, str]], Iterable[ConfigEntry]]
"""Overrides of a topic → its whole effective config."""


class TopicsApi:
    """Creates, extends and deletes topics."""

    def __init__(self, controller: Controller, describe_topic: DescribeTopic) -> None:
        self._controller = controller
        self._describe_topic = describe_topic

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.CREATE_TOPICS, 2, 7, self.create_topics),
            Route(ApiKey.DELETE_TOPICS, 1, 6, self.delete_topics),
            Route(ApiKey.CREATE_PARTITIONS, 0, 3, self.create_partitions),
        )

    async def create_topics(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        """Create topics, or check whether they could be."""
        try:
            results = await self._controller.create_topics(
                [_new_topic(topic) for topic in request.topics],
                validate_only=request.validate_only,
                charge=_charge(context, FIRST_STRICT_CREATE_VERSION),
            )
        except MetadataError as refusal:
            names = dict.fromkeys(topic.name for topic in request.topics)
            results = [CreateTopicResult(name, error=refusal) for name in names]
        return CreateTopicsResponse(topics=[self._created(result, context) for result in results])

    async def delete_topics(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
        """Delete topics by name, since v6 also by id."""
        if context.api_version >= FIRST_DELETE_VERSION_WITH_IDS:
            entries = [TopicToDelete(topic.name, topic.topic_id) for topic in request.topics]
        else:
            entries = [TopicToDelete(name) for name in request.topic_names]
        try:
            results = await self._controller.delete_topics(
                entries, charge=_charge(context, FIRST_STRICT_DELETE_VERSION)
            )
        except MetadataError as refusal:
            code, message = _told(refusal, context)
            if isinstance(refusal, TopicDeletionDisabled) and context.api_version < FIRST_DELETE_VERSION_WITH_DISABLED:
                code = ErrorCode.INVALID_REQUEST
            return DeleteTopicsResponse(
                responses=[
                    DeletableTopicResult(
                        name=entry.name, topic_id=entry.topic_id, error_code=code, error_message=message
                    )
                    for entry in entries
                ]
            )
        responses = []
        for result in results:
            code, message = _told(result.error, context)
            responses.append(
                DeletableTopicResult(name=result.name, topic_id=result.topic_id, error_code=code, error_message=message)
            )
        return DeleteTopicsResponse(responses=responses)

    async def create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        """Extend topics, or check whether they could be."""
        wanted = [
            NewPartitions(
                topic.name,
                topic.count,
                None
                if topic.assignments is None
                else tuple(tuple(assignment.broker_ids) for assignment in topic.assignments),
            )
            for topic in request.topics
        ]
        try:
            results = await self._controller.create_partitions(
                wanted,
                validate_only=request.validate_only,
                charge=_charge(context, FIRST_STRICT_CREATE_PARTITIONS_VERSION),
            )
            errors = {result.name: result.error for result in results}
        except MetadataError as refusal:
            errors = {topic.name: refusal for topic in request.topics}
        responses = []
        for name, error in errors.items():
            code, message = _told(error, context)
            responses.append(CreatePartitionsTopicResult(name=name, error_code=code, error_message=message))
        return CreatePartitionsResponse(results=responses)

    def _created(self, result: CreateTopicResult, context: RequestContext) -> CreatableTopicResult:
        topic = result.topic
        code, message = _told(result.error, context)
        if topic is None:
            return CreatableTopicResult(name=result.name, error_code=code, error_message=message, configs=[])
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=code,
            num_partitions=len(topic.partitions),
            replication_factor=len(topic.partitions[0].replicas),
            error_message=None,
            configs=[
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in sorted(self._describe_topic(result.configs or {}))
            ],
        )


def _charge(context: RequestContext, strict_since_version: int) -> Charge:
    """Return what charges the partitions of a request to its client."""
    if context.meter is None:
        return uncharged
    quota = context.meter.mutations(strict=context.api_version >= strict_since_version)
    return uncharged if quota is None else quota.charge


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _told(error: MetadataError | None, context: RequestContext) -> tuple[ErrorCode, str | None]:
    if error is None:
        return ErrorCode.NONE, None
    return code_of(error, context), str(error) or None
