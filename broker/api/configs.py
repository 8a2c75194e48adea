"""DescribeConfigs (key 32, 1 to 4) and ListConfigResources (74, 0 to 1).

- DescribeConfigs: v1 config source and synonyms; v3 type and documentation; v4 flexible.
- Topics and this broker; the empty broker name shows the cluster-wide dynamic defaults. Groups and client metrics
  subscriptions need not exist: they show what they would inherit.
- ListConfigResources: v0 client metrics subscriptions alone; v1 kinds to choose from, none chosen means all. Groups and
  subscriptions are listed while they have configs of their own.
- Difference from the reference: broker loggers are described as an empty list, because log levels are not config here.

Source: ConfigHelper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.errors import InvalidRequest, MetadataError, UnknownTopicOrPartition
from broker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from broker.metadata.names import check_topic_name
from broker.runtime import loggers
from config.dynamic import (
    TYPE_UNKNOWN,
    ConfigEntry,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from config.resolve import ConfigSource, Resolver
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

BROKER_LOGGER_RESOURCE = 8

RESOURCE_KINDS = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
FIRST_LIST_OF_KINDS = 1


class ConfigsApi:
    """Describes configuration, and tells what has one."""

    def __init__(
        self, image: Callable[[], ClusterImage], resolver: Callable[[ClusterImage], Resolver], node_id: int
    ) -> None:
        self._image = image
        self._resolver = resolver
        self._node_id = node_id

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_CONFIGS, 1, 4, self.describe_configs),
            Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, self.list_config_resources),
        )

    async def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        """Describe each resource of the request; others get their turn in between."""
        results: list[DescribeConfigsResult] = []
        for resource in request.resources:
            if results:  # a resource takes the loop for a millisecond or more
                await asyncio.sleep(0)
            results.append(self._describe(resource, request, context))
        return DescribeConfigsResponse(results=results)

    async def list_config_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext
    ) -> ListConfigResourcesResponse:
        """List the resources that have configs, of the kinds asked for."""
        if context.api_version < FIRST_LIST_OF_KINDS:
            kinds: Collection[int] = (CLIENT_METRICS_RESOURCE,)
        else:
            kinds = dict.fromkeys(request.resource_types) or RESOURCE_KINDS
        if not set(kinds) <= set(RESOURCE_KINDS):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=kind) for kind in kinds for name in self._names(kind)
            ]
        )

    def _names(self, kind: int) -> Iterable[str]:
        image = self._image()
        if kind == TOPIC_RESOURCE:
            return image.topics_by_name
        if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
            return [str(broker.broker_id) for broker in image.active_brokers()]
        return [name for resource_type, name in image.configs if resource_type == kind]

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            entries = self._entries(resource.resource_type, resource.resource_name, resource.configuration_keys)
        except MetadataError as refusal:
            result.error_code = code_of(refusal, context)
            result.error_message = str(refusal)
            return result
        result.configs = [
            _told(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
            for entry in entries
        ]
        return result

    def _entries(self, resource_type: int, name: str, keys: Collection[str] | None) -> Iterable[ConfigEntry]:
        image = self._image()
        resolver = self._resolver(image)
        if resource_type == TOPIC_RESOURCE:
            check_topic_name(name)
            if name not in image.topics_by_name:
                raise UnknownTopicOrPartition(f"Topic '{name}' does not exist.")
            return describe_topic(resolver, image.topic_config(name), keys)
        if resource_type == BROKER_RESOURCE:
            if not name:
                return describe_broker_defaults(resolver, keys)
            self._ensure_own_id(name, "expected {} or empty string, but received {}")
            return describe_broker(resolver, keys)
        if resource_type == BROKER_LOGGER_RESOURCE:
            if not name:
                raise InvalidRequest("Broker id must not be empty")
            self._ensure_own_id(name, "expected {} but received {}")
            return [_of_logger(one, level) for one, level in loggers.levels().items() if not keys or one in keys]
        overrides = image.configs.get((resource_type, name), {})
        if resource_type == GROUP_RESOURCE:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            return describe_group(resolver, overrides, keys)
        if resource_type == CLIENT_METRICS_RESOURCE:
            if not name:
                raise InvalidRequest("Client metrics subscription name must not be empty")
            return describe_client_metrics(resolver, overrides, keys)
        raise InvalidRequest(f"Unsupported resource type: {resource_type}")

    def _ensure_own_id(self, name: str, expectation: str) -> None:
        try:
            broker_id = int(name)
        except ValueError:
            raise InvalidRequest(f"Broker id must be an integer, but it is: {name}") from None
        if broker_id != self._node_id:
            raise InvalidRequest("Unexpected broker id, " + expectation.format(self._node_id, name))


def _of_logger(name: str, level: str) -> ConfigEntry:
    return ConfigEntry(name, level, False, ConfigSource.DYNAMIC_BROKER_LOGGER, False, (), TYPE_UNKNOWN, "")


def _told(entry: ConfigEntry, *, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=link.name, value=link.text, source=link.source) for link in entry.synonyms
        ]
        if synonyms
        else [],
        config_type=entry.type_code,
        # An empty one, as loggers have, is told unasked.
        documentation=entry.documentation if documentation or not entry.documentation else None,
    )
