"""Metadata (3), DescribeCluster (60), DescribeTopicPartitions (75). Served: 0 to 13, 0 to 2, 0.

- Metadata: v1 null means all topics, controller id; v2 cluster id; v4 the auto-creation flag; v5 offline replicas;
  v7 leader epoch; v8 authorized operations (the cluster's until v10); v9 flexible; v10 topic ids; v12 lookup by id;
  v13 top-level error.
- DescribeCluster: v1 endpoint type; v2 fenced brokers.
- Every address is that of the listener the request came through.
- Difference from the reference: a topic that a Metadata request causes to be created is complete in that very answer,
  where Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and lets the client ask again.
- There is no authorizer: all operations are authorized, nothing is hidden.

What is told about a topic is built once per topic image, and the answer about all topics is encoded once per image: a
listing of thousands of partitions would otherwise hold up the loop for many milliseconds.
Source: KafkaApis.handleTopicMetadataRequest, DescribeTopicPartitionsRequestHandler, AutoTopicCreationManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.api.describe_topic_partitions import describe_topic_partitions
from broker.api.route import EncodedResponse, RequestContext, Route
from broker.api.topic_listing import (
    AUTHORIZED_OPERATIONS_NOT_ASKED,
    TOPIC_AUTHORIZED_OPERATIONS,
    TopicListing,
)
from broker.metadata.controller.plan import uncharged
from broker.metadata.controller.run import Controller
from broker.metadata.errors import MetadataError
from broker.metadata.image import ClusterImage
from broker.metadata.names import CLUSTER_METADATA
from config.views import BrokerConfig, ListenerConfig
from protocol.api_keys import ApiKey
from protocol.codec import encode_bytes
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from protocol.uuids import ZERO_UUID
from storage.segment.names import is_legal_topic

logger = logging.getLogger(__name__)

NO_CONTROLLER = -1
FIRST_VERSION_BY_ID = 12
FIRST_VERSION_WITH_THROTTLE = 3
"""It stands first in the response."""
CLUSTER_AUTHORIZED_OPERATIONS = 8096
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write: bit n for operation code n."""

MAX_LISTINGS = 8
"""Encoded listings kept at once; clients of one cluster use few versions, and a listing may have megabytes."""

BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2
_ENDPOINT_TYPES = {BROKER_ENDPOINTS: "BROKER", CONTROLLER_ENDPOINTS: "CONTROLLER"}
FIRST_VERSION_WITH_ENDPOINT_TYPES = 1


class ClusterApi:
    """Tells what there is in the cluster, and creates topics that are asked for and missing."""

    def __init__(self, controller: Controller, config: BrokerConfig) -> None:
        self._controller = controller
        self._config = config
        self._listing = TopicListing()
        # Brokers by listener, built for `_brokers_of`; both replaced when the image's brokers are.
        self._broker_structs: dict[str, list[MetadataResponseBroker]] = {}
        self._brokers_of: object = None
        # Encoded answers about all topics, for `_listings_of` alone.
        self._listings: dict[tuple[int, ListenerConfig, bool, bool], EncodedResponse] = {}
        self._listings_of: ClusterImage | None = None

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.METADATA, 0, 13, self.metadata),
            Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, self.describe_cluster),
            Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, self.describe_topic_partitions),
        )

    async def metadata(self, request: MetadataRequest, context: RequestContext) -> MetadataResponse | EncodedResponse:
        """List brokers, and topics: all, none, or those named."""
        version = context.api_version
        asked = request.topics
        operations = request.include_topic_authorized_operations
        if asked is None or (version == 0 and not asked):
            return self._all_topics(request, context)
        if not asked:
            topics = []
        elif version < FIRST_VERSION_BY_ID and any(t.name is None or t.topic_id != ZERO_UUID for t in asked):
            topics = [_refused(topic) for topic in asked]
        elif any(topic.topic_id != ZERO_UUID for topic in asked):
            topics = self._by_id((t.topic_id for t in asked if t.topic_id != ZERO_UUID), with_operations=operations)
        else:
            names = list(dict.fromkeys(topic.name or "" for topic in asked))
            if request.allow_auto_topic_creation and self._config.auto_create_topics_enable:
                await self._create_missing(names, context)
            topics = self._by_name(names, with_operations=operations)
        return self._answer(topics, request, context)

    async def describe_cluster(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        """List the brokers."""
        if request.endpoint_type != BROKER_ENDPOINTS:
            return wrong_endpoints(request.endpoint_type, BROKER_ENDPOINTS, context.api_version)
        image = self._controller.image
        brokers = []
        for broker in sorted(image.brokers.values(), key=lambda broker: broker.broker_id):
            if broker.fenced and not request.include_fenced_brokers:
                continue
            address = self._address(image, broker.broker_id, context)
            if address is not None:
                host, port = address
                brokers.append(
                    DescribeClusterBroker(
                        broker_id=broker.broker_id, host=host, port=port, rack=broker.rack, is_fenced=broker.fenced
                    )
                )
        listed = any(broker.broker_id == self._config.node_id for broker in brokers)
        return DescribeClusterResponse(
            endpoint_type=BROKER_ENDPOINTS,
            cluster_id=image.cluster_id,
            controller_id=self._config.node_id if listed else NO_CONTROLLER,
            brokers=brokers,
            cluster_authorized_operations=CLUSTER_AUTHORIZED_OPERATIONS
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_ASKED,
        )

    async def describe_topic_partitions(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        """List partitions page by page, sorted by topic."""
        return describe_topic_partitions(
            self._controller.image, request, max_partitions=self._config.max_request_partition_size_limit
        )

    def _all_topics(self, request: MetadataRequest, context: RequestContext) -> EncodedResponse:
        """List everything; the same bytes again until the image changes."""
        image = self._controller.image
        if self._listings_of is not image or len(self._listings) >= MAX_LISTINGS:
            self._listings_of = image
            self._listings = {}
        operations = request.include_topic_authorized_operations
        key = context.api_version, context.listener, operations, request.include_cluster_authorized_operations
        listing = self._listings.get(key)
        if listing is None:
            topics = self._listing.all_topics(image, with_operations=operations)
            body = encode_bytes(self._answer(topics, request, context), context.api_version)
            listing = self._listings[key] = EncodedResponse(body, 0 if key[0] >= FIRST_VERSION_WITH_THROTTLE else None)
        return listing

    def _answer(
        self, topics: list[MetadataResponseTopic], request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        image = self._controller.image
        return MetadataResponse(
            brokers=self._brokers(image, context),
            cluster_id=image.cluster_id,
            controller_id=self._controller_id(image),
            topics=topics,
            cluster_authorized_operations=CLUSTER_AUTHORIZED_OPERATIONS
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_ASKED,
        )

    async def _create_missing(self, names: Iterable[str], context: RequestContext) -> None:
        """Create what is missing and may be; what cannot be created is simply not there afterwards."""
        known = self._controller.image.topics_by_name
        missing = [n for n in names if n not in known and n != CLUSTER_METADATA and is_legal_topic(n)]
        if not missing:
            return
        quota = None if context.meter is None else context.meter.mutations_on_behalf(strict=True)
        try:
            results = await self._controller.auto_create(missing, uncharged if quota is None else quota.charge)
        except MetadataError as refusal:
            logger.debug("auto-creation failed topics=%d reason=%s", len(missing), refusal)
            return
        for result in results:
            if result.error is not None:
                logger.debug("auto-creation refused topic=%s reason=%s", result.name, result.error)

    def _by_name(self, names: Iterable[str], *, with_operations: bool) -> list[MetadataResponseTopic]:
        image = self._controller.image
        topics = []
        for name in names:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                topics.append(self._listing.topic(image, topic, with_operations=with_operations))
                continue
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal_topic(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            topics.append(
                MetadataResponseTopic(
                    error_code=code,
                    name=name,
                    topic_authorized_operations=TOPIC_AUTHORIZED_OPERATIONS
                    if with_operations
                    else AUTHORIZED_OPERATIONS_NOT_ASKED,
                )
            )
        return topics

    def _by_id(self, ids: Iterable[bytes], *, with_operations: bool) -> list[MetadataResponseTopic]:
        image = self._controller.image
        topics = []
        for topic_id in dict.fromkeys(ids):
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                topics.append(
                    MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
                )
            else:
                topics.append(self._listing.topic(image, topic, with_operations=with_operations))
        return topics

    def _brokers(self, image: ClusterImage, context: RequestContext) -> list[MetadataResponseBroker]:
        if self._brokers_of is not image.brokers:
            self._brokers_of = image.brokers
            self._broker_structs = {}
        structs = self._broker_structs.get(context.listener.name)
        if structs is None:
            structs = self._broker_structs[context.listener.name] = []
            for broker in image.active_brokers():
                address = self._address(image, broker.broker_id, context)
                if address is not None:
                    host, port = address
                    structs.append(
                        MetadataResponseBroker(node_id=broker.broker_id, host=host, port=port, rack=broker.rack)
                    )
        return structs

    def _address(self, image: ClusterImage, broker_id: int, context: RequestContext) -> tuple[str, int] | None:
        """Return where clients of this listener reach a broker; ourselves, where they just did."""
        if broker_id == self._config.node_id:
            return context.listener.advertised_host, context.listener.advertised_port
        endpoint = image.brokers[broker_id].endpoint(context.listener.name)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _controller_id(self, image: ClusterImage) -> int:
        broker = image.brokers.get(self._config.node_id)
        return NO_CONTROLLER if broker is None or broker.fenced else broker.broker_id


def _refused(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)


def wrong_endpoints(asked: int, served: int, version: int) -> DescribeClusterResponse:
    """Refuse a DescribeCluster that was meant for listeners of another kind; before v1 there were no kinds."""
    if asked in _ENDPOINT_TYPES:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            f"The request was sent to an endpoint of type {_ENDPOINT_TYPES[served]}, "
            f"but we wanted an endpoint of type {_ENDPOINT_TYPES[asked]}"
        )
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {asked}"
    return DescribeClusterResponse(
        error_code=code if version >= FIRST_VERSION_WITH_ENDPOINT_TYPES else ErrorCode.INVALID_REQUEST,
        error_message=message,
        endpoint_type=asked,
    )
