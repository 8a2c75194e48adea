"""Topic names: which are legal, which collide, which belong to the broker itself.

Source: org.apache.kafka.common.internals.Topic. '.' and '_' fall together in metric names, hence the collision rule.
"""

from __future__ import annotations

from broker.metadata.errors import InvalidTopic
from storage.segment.names import CLUSTER_METADATA_TOPIC, MAX_TOPIC_LENGTH, is_legal_topic

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = CLUSTER_METADATA_TOPIC

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""Topics that Metadata marks as internal."""


def check_topic_name(name: str) -> None:
    """Raise InvalidTopic, with the reason, unless `name` may name a topic."""
    if is_legal_topic(name):
        return
    if not name:
        reason = "it is empty"
    elif name in (".", ".."):
        reason = f"'{name}' names a directory"
    elif len(name) > MAX_TOPIC_LENGTH:
        reason = f"'{name}' is longer than {MAX_TOPIC_LENGTH} characters"
    else:
        reason = f"'{name}' holds characters other than ASCII letters, digits, '.', '_' and '-'"
    raise InvalidTopic(f"Topic name is invalid: {reason}")


def collision_key(name: str) -> str:
    """Return what two colliding names have in common."""
    return name.replace(".", "_")


def has_collision_chars(name: str) -> bool:
    """Tell whether `name` could collide with another at all."""
    return "." in name or "_" in name
