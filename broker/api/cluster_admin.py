"""DescribeQuorum (key 55, 0 to 2), UpdateFeatures (57, 0 to 2), UnregisterBroker (64, 0).

- DescribeQuorum: v1 when each voter last fetched; v2 messages, directory ids and the voters' endpoints. There is one
  voter, which is never behind. Asked for anything but the metadata partition alone, nothing is described.
- UpdateFeatures: v1 may only validate, and tells upgrades from downgrades by a type; v2 answers for the whole request.
- Differences from the reference: this broker itself cannot be unregistered; `kraft.version` cannot be changed; each
  update that v0 and v1 tell about comes without a message.

Source: KIP-584, KIP-595, KIP-836, KIP-853, KIP-1022; KafkaRaftClient.handleDescribeQuorumRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.api.errors import code_of
from broker.api.route import RequestContext, Route
from broker.metadata.controller.feature_updates import FeatureUpdate, UpgradeType, plan_update_features
from broker.metadata.controller.run import Controller
from broker.metadata.controller.unregistration import plan_unregister_broker
from broker.metadata.errors import MetadataError
from broker.metadata.names import CLUSTER_METADATA
from config.views import ListenerConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

FIRST_WITH_UPGRADE_TYPES = 1


class ClusterAdminApi:
    """Tells about the quorum, and changes what the cluster consists of."""

    def __init__(
        self, controller: Controller, now_ms: Callable[[], int], listeners: Sequence[ListenerConfig] = ()
    ) -> None:
        self._controller = controller
        self._now_ms = now_ms
        self._listeners = listeners  # of the controller

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.DESCRIBE_QUORUM, 0, 2, self.describe_quorum),
            Route(ApiKey.UPDATE_FEATURES, 0, 2, self.update_features),
            Route(ApiKey.UNREGISTER_BROKER, 0, 0, self.unregister_broker),
        )

    async def describe_quorum(self, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
        """Describe the quorum of the metadata partition."""
        asked = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
        if asked != [(CLUSTER_METADATA, 0)] or len(request.topics) != 1:
            return _undescribed(request)
        image, now_ms, own = self._controller.image, self._now_ms(), self._controller.voter
        voter = ReplicaState(
            replica_id=own.node_id,
            replica_directory_id=own.directory_id,
            log_end_offset=image.end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        partition = ResponsePartitionData(
            error_message=None,
            leader_id=own.node_id,
            leader_epoch=self._controller.epoch,
            high_watermark=image.end_offset,
            current_voters=[voter],
        )
        endpoints = [
            Listener(name=one.name, host=one.advertised_host, port=one.advertised_port) for one in self._listeners
        ] or [Listener(name=own.listener_name, host=own.host, port=own.port)]
        return DescribeQuorumResponse(
            error_message=None,
            topics=[ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
            nodes=[Node(node_id=own.node_id, listeners=endpoints)],
        )

    async def update_features(self, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
        """Set levels of features, all of them or none."""
        updates = [
            FeatureUpdate(
                one.feature,
                one.max_version_level,
                one.upgrade_type if context.api_version >= FIRST_WITH_UPGRADE_TYPES else _type_of(one.allow_downgrade),
            )
            for one in request.feature_updates
        ]
        node_id = self._controller.voter.node_id
        try:
            await self._controller.execute(
                lambda image: plan_update_features(image, updates, node_id), validate_only=request.validate_only
            )
        except MetadataError as refusal:
            return UpdateFeaturesResponse(error_code=code_of(refusal, context), error_message=str(refusal))
        return UpdateFeaturesResponse(
            error_message=None,
            results=[UpdatableFeatureResult(feature=one.name, error_message=None) for one in updates],
        )

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, context: RequestContext
    ) -> UnregisterBrokerResponse:
        """Forget a broker that is gone."""
        node_id = self._controller.voter.node_id
        try:
            await self._controller.execute(lambda image: plan_unregister_broker(image, request.broker_id, node_id))
        except MetadataError as refusal:
            return UnregisterBrokerResponse(error_code=code_of(refusal, context), error_message=str(refusal))
        return UnregisterBrokerResponse(error_message=None)


def _type_of(allow_downgrade: bool) -> UpgradeType:
    return UpgradeType.SAFE_DOWNGRADE if allow_downgrade else UpgradeType.UPGRADE


def _undescribed(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(
                        partition_index=one.partition_index,
                        error_code=unknown,
                        error_message=f"Only partition 0 of {CLUSTER_METADATA} has a quorum to describe.",
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
