"""The only look a broker takes into members' metadata: which topics a consumer subscribes to.

Shape: int16 version, then the subscription; every version begins with the fields of version 0, which is all we read.
"""

from __future__ import annotations

from protocol.codec import decode
from protocol.errors import ProtocolError
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION_SIZE = 2


def parse_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Give the topics of one member's subscription, None when the bytes are none."""
    try:
        subscription = decode(ConsumerProtocolSubscription, 0, metadata, _VERSION_SIZE)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)
