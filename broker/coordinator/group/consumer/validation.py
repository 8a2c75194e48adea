"""What a heartbeat must look like before its group is even looked for, in Kafka's order and words.

Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordinator.errors import InvalidRequest, UnsupportedAssignor
from broker.coordinator.group.consumer.commands import JOIN_EPOCH, HeartbeatRequest
from broker.coordinator.group.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH


def ensure_valid(request: HeartbeatRequest, assignors: Sequence[str], *, brings_member_id: bool) -> None:
    """Check a heartbeat; from v1 on members bring their ids. Raises: InvalidRequest, UnsupportedAssignor."""
    if brings_member_id or request.epoch > JOIN_EPOCH or request.epoch == LEAVE_EPOCH:
        _ensure_not_blank(request.member_id, "MemberId can't be empty.")
    _ensure_not_blank(request.group_id, "GroupId can't be empty.")
    _ensure_not_blank(request.instance_id, "InstanceId can't be empty.")
    _ensure_not_blank(request.rack_id, "RackId can't be empty.")
    if request.epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms is None:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.topic_names is None and request.topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif request.epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif request.epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )


def _ensure_not_blank(text: str | None, reason: str) -> None:
    if text is not None and not text.strip():
        raise InvalidRequest(reason)
