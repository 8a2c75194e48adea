"""One member of a classic group: who it is, what it supports, what it waits for."""

from __future__ import annotations

from collections.abc import Container

from broker.coordinator.group.commands import JoinReply, JoinRequest, Protocols, SyncReply
from broker.coordinator.timers import Timer


class ClassicMember:
    """A member as the coordinator knows it.

    Its first three fields are fixed; joins write the timeouts and protocols, the leader's SyncGroup the assignment.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(self, member_id: str, request: JoinRequest, session: Timer) -> None:
        self.member_id = member_id
        self.group_instance_id = request.group_instance_id
        self.protocol_type = request.protocol_type
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols: Protocols = request.protocols
        self.assignment = b""
        # True until the member has lived through its first join.
        self.is_new = False
        # The replies of parked requests; at most one of them is set.
        self.awaiting_join: JoinReply | None = None
        self.awaiting_sync: SyncReply | None = None
        # Removes the member when it fires.
        self.session = session

    @property
    def is_static(self) -> bool:
        """Tell whether the member bears a group instance id."""
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Tell whether a session that has run out is forgiven: the member is parked here, so it cannot heartbeat."""
        if self.is_new:
            return False
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def refresh_session(self) -> None:
        """Start the session anew."""
        self.session.start(self.session_timeout_ms)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Give the metadata the member sent for a protocol, empty when it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Container[str]) -> str:
        """Give the protocol of the candidates that this member likes best."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of the candidate protocols")
