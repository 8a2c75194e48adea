"""What members of consumer groups ask and what they are told, free of wire versions."""

from __future__ import annotations

from typing import NamedTuple

from broker.coordinator.group.consumer.member import Target

JOIN_EPOCH = 0
"""The epoch a member joins with, and joins anew when it was fenced."""


class HeartbeatRequest(NamedTuple):
    """A member reports; None means that nothing has changed since the last report."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Target | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Tell whether the member says everything, as it does when an answer was lost."""
        is_subscribing = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms is not None and is_subscribing and self.owned is not None


class HeartbeatResult(NamedTuple):
    """The answer; an assignment of None means "keep what you have"."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Target | None = None
