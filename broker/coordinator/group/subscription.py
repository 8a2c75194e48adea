"""What classic consumers hide in their metadata and assignments from the broker, and where it looks all the same.

Shape: int16 version, then the subscription or the assignment. Of classic groups only the topics of a subscription
matter, which every version begins with; all of it where members of both protocols meet in one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.codec import decode
from protocol.errors import ProtocolError
from protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from protocol.stored.framing import encode_versioned

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION_SIZE = 2


def parse_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Give the topics of one member's subscription, None when the bytes are none."""
    try:
        subscription = decode(ConsumerProtocolSubscription, 0, metadata, _VERSION_SIZE)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Read a member's subscription; one of a later version is read as the newest known. Raises: ProtocolError."""
    return decode(ConsumerProtocolSubscription, _version(metadata), metadata, _VERSION_SIZE)


def parse_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Read what a leader has assigned to a member, in the same way. Raises: ProtocolError."""
    return decode(ConsumerProtocolAssignment, _version(data), data, _VERSION_SIZE)


def assignment_bytes(partitions: Mapping[str, Sequence[int]], *, like: bytes) -> bytes:
    """Write an assignment in the version a member's subscription `like` is in. Raises: ProtocolError."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(numbers))
            for topic, numbers in sorted(partitions.items())
        ]
    )
    return encode_versioned(assignment, _version(like))


def _version(data: bytes) -> int:
    if len(data) < _VERSION_SIZE:
        raise ProtocolError("consumer protocol data shorter than its version")
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"consumer protocol data of version {version}")
    return min(version, ConsumerProtocolSubscription.MAX_VERSION)
