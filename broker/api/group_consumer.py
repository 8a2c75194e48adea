"""ConsumerGroupHeartbeat (key 68, 0 to 1), ConsumerGroupDescribe (69, 0 to 1): groups of the consumer protocol.

- Heartbeat: v0 the coordinator makes the member's id, v1 the member brings it, and may subscribe by regular expression.
- Describe: v1 tells which protocol each member speaks.
- Both answer UNSUPPORTED_VERSION while `group.version` is 0, and the heartbeat when the protocol is switched off.
- Difference from the reference: a member that joins creates the offsets topic when it is missing, as JoinGroup does.

Source: KafkaApis, GroupCoordinatorService; KIP-848.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.api.errors import known_code
from broker.api.group_admin import GROUP_AUTHORIZED_OPERATIONS
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError, GroupIdNotFound
from broker.coordinator.group.consumer.commands import HeartbeatRequest
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import NO_TARGET, ConsumerMember, Target, merged
from broker.coordinator.group.consumer.validation import ensure_valid
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.metadata.controller.features import GROUP_VERSION
from broker.metadata.image import ClusterImage
from config.views import GroupConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import consumer_group_describe as describe
from protocol.messages import consumer_group_heartbeat as heartbeat
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

FIRST_HEARTBEAT_WITH_MEMBER_IDS = 1

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

_NOT_GIVEN = -1


class GroupConsumerApi:
    """Membership and description of consumer groups."""

    def __init__(self, coordinator: GroupCoordinator, config: GroupConfig, image: Callable[[], ClusterImage]) -> None:
        self._coordinator = coordinator
        self._assignors = config.consumer.assignors
        self._is_enabled = "consumer" in config.rebalance_protocols
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, self.consumer_group_heartbeat),
            Route(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, self.consumer_group_describe),
        )

    # -- heartbeat --------------------------------------------------------------------------------------------------

    async def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        """Take a member's report in."""
        if not self._is_enabled or not self._is_finalized():
            code = ErrorCode.UNSUPPORTED_VERSION
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.text)
        report = _report_of(request, context)
        try:
            ensure_valid(
                report, self._assignors, brings_member_id=context.api_version >= FIRST_HEARTBEAT_WITH_MEMBER_IDS
            )
            result = await self._coordinator.consumer_heartbeat(report)
        except CoordinatorError as refusal:
            code = known_code(refusal)
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message=str(refusal) or code.text)
        assignment = result.assignment
        return ConsumerGroupHeartbeatResponse(
            member_id=result.member_id,
            member_epoch=result.epoch,
            heartbeat_interval_ms=result.heartbeat_interval_ms,
            assignment=None
            if assignment is None
            else heartbeat.Assignment(
                topic_partitions=[
                    heartbeat.ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in sorted(assignment.items())
                ]
            ),
        )

    def _is_finalized(self) -> bool:
        return self._image().features.get(GROUP_VERSION, 0) >= 1

    # -- describe ---------------------------------------------------------------------------------------------------

    async def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> ConsumerGroupDescribeResponse:
        """Describe groups and their members, in the order asked."""
        groups = [self._describe(group_id) for group_id in request.group_ids]
        if request.include_authorized_operations:
            for described in groups:
                if described.error_code == ErrorCode.NONE:
                    described.authorized_operations = GROUP_AUTHORIZED_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    def _describe(self, group_id: str) -> describe.DescribedGroup:
        if not self._is_finalized():
            code = ErrorCode.UNSUPPORTED_VERSION
            return describe.DescribedGroup(group_id=group_id, error_code=code, error_message=code.text)
        if not group_id:
            code = ErrorCode.INVALID_GROUP_ID
            return describe.DescribedGroup(group_id=group_id, error_code=code, error_message="GroupId can't be empty.")
        try:
            group = self._coordinator.group(group_id)
            if not isinstance(group, ConsumerGroup):
                raise GroupIdNotFound(group_id, f"Group {group_id} is not a consumer group.")
        except CoordinatorError as refusal:
            code = known_code(refusal)
            return describe.DescribedGroup(group_id=group_id, error_code=code, error_message=str(refusal) or code.text)
        assignor, _ = next(iter(group.assignors.most_common(1)), (self._assignors[0], 0))
        return describe.DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=assignor,
            members=[self._described(group, member) for member in group.members.values()],
        )

    def _described(self, group: ConsumerGroup, member: ConsumerMember) -> describe.Member:
        return describe.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            assignment=self._named(merged((member.assigned, member.pending_revocation))),
            target_assignment=self._named(group.targets.get(member.member_id, NO_TARGET)),
            member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def _named(self, target: Target) -> describe.Assignment:
        """Name the topics of an assignment; those that are gone are left out."""
        topics = self._image().topics_by_id
        return describe.Assignment(
            topic_partitions=[
                describe.TopicPartitions(
                    topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(partitions)
                )
                for topic_id, partitions in sorted(target.items())
                if topic_id in topics
            ]
        )


def _report_of(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> HeartbeatRequest:
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == _NOT_GIVEN else timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
    )


def _owned(parts: Sequence[heartbeat.RequestTopicPartitions] | None) -> Target | None:
    if parts is None:
        return None
    owned: dict[bytes, frozenset[int]] = {}
    for part in parts:
        owned[part.topic_id] = owned.get(part.topic_id, frozenset()).union(part.partitions)
    return owned
